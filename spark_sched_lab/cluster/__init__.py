"""The simulated cluster: nodes, their slots, and where a task is placed."""
