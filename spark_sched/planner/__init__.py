"""The live planner: transport, main loop, recording and the history on disk."""
