"""Policies that order jobs by one key."""
