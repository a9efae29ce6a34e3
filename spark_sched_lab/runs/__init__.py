"""Experiments, simulated and on real clusters: their files, runs, comparisons and reports."""
