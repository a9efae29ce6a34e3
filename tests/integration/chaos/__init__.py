"""One application under random faults: what must be true of it while it lasts, and what must be left of it.

``python -m tests.integration.chaos POLICY`` runs it for ``--seconds`` and prints a table of counts, or JSON
with ``--json``. All counts must be zero. ``--seed`` draws the jobs and the faults.

- `tenants`: 24 threads of five users that submit jobs and check each result;
- `streams`: streaming queries that are stopped and go on from their checkpoint;
- `faults`: what is killed, stopped, steered and locked, and when; `garbage`: what is sent to ports;
- `watch`: looks at the status document while all of that happens;
- `learned`: compares the history with the jobs that ended;
- `report`: the table of counts, and the load that the run was;
- `__main__`: the application, and what is left at its end.
"""
