"""Experiments in the simulator: from a TOML file to tables and a report."""
