"""Suites of workloads: files, matrices, arrivals, runs on a cluster or in the simulator."""
