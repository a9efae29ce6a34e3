"""``python -m spark_sched`` is the ``spark-sched`` command."""

from spark_sched.cli import main

if __name__ == "__main__":
    main()
