"""The functions that users import: mark a job, ask for admission, read the status, change an application."""
