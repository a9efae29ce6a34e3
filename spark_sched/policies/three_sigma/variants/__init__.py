"""3Sigma and its ablations: the same planner with other settings."""
