"""The ``spark-sched`` command: argument parsing and printing only."""


def main() -> None:
    raise SystemExit("not built yet")
