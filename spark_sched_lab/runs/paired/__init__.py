"""Paired runs on a real cluster: applications driven over a pipe, statistics over pairs."""
