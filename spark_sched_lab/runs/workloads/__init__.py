"""Workloads for the demo, the benchmarks and the tests: foreground programs and background jobs."""
