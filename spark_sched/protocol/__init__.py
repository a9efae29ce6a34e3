"""What crosses the wire between a driver and its planner: events and plans."""
