"""A/B tests on a real cluster or in the simulator: suites, schedule of runs, statistics, reports."""
