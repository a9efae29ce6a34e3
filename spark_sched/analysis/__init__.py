"""Answers from traces and event logs, without a cluster."""
