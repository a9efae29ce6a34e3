"""The commands that need no driver: argument parsing and printing only."""
