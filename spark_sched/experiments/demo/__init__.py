"""The demo: what it runs, what it shows."""
