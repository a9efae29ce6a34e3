"""The papers' figures beside our own numbers: ``spark-sched reproduce PAPER [FIGURE…]``.

A paper is one module (or package) with a `Paper` of the name ``PAPER`` and one line in
:mod:`spark_sched.experiments.reproduce.registry`. A figure says which runs it needs and makes a table, values
and charts of their results; running, keeping, progress and reports are here and the same for all.
"""
