"""Times as Spark writes them (``100ms``, ``10s``, ``10min``, ``1h``), to and from milliseconds."""
