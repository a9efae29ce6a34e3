"""Isolation levels that follow from what the runs of recurring jobs show."""
