"""The demo: its runs and its reports."""
