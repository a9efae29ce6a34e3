"""A job's runtime as a distribution, from the history of similar jobs (3Sigma §4.1)."""
