"""The JVM side of the scheduler: compiled once, cached, and attached by properties."""
