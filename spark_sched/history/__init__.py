"""The history of earlier runs, in a database that applications share."""
