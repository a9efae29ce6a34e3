"""The lab: everything that needs no driver. The simulator, traces, analyses, comparisons."""
