"""What was learned from earlier runs, in a database that applications share."""
