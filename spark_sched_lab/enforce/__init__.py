"""The driver's rules once more, in Python: who holds a slot, and who may start."""
