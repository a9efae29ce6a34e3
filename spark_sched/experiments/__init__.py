"""Paired experiments on a real cluster: the demo, its statistics, timelines and reports."""
