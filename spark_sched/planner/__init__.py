"""The live planner: transport, main loop, admission and the recording of events."""
