"""The functions that users import: mark a job, ask before submitting one, see and change what goes on."""
