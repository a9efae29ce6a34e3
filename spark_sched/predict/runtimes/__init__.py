"""A job's runtime as a distribution, from the history of jobs like it (3Sigma §4.1)."""
