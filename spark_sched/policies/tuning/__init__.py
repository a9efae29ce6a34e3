"""Isolation levels tuned from the measured runs of recurring jobs."""
