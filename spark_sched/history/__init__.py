"""What earlier runs taught, kept in a database that applications share."""
