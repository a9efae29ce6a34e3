"""The status document of a live application, read and printed for people."""
