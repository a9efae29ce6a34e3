"""The papers' figures beside this project's values: ``spark-sched reproduce PAPER [FIGURE…]``.

A paper is one module (or package) with a `Paper` of the name ``PAPER`` and one line in
:mod:`benchmarks.papers.registry`. A figure names the runs that it needs and makes a table,
values and charts of their results. This package executes and keeps runs, shows progress and writes reports
for all papers.
"""
