"""The parts of every report: pages, plots, and the machine and versions of a measurement."""
