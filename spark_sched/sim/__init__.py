"""The simulator's parts.

:mod:`spark_sched.sim.ledger` is the state machine of speculative slot reservation: which idle slot is held,
for which job, until when. The JVM bridge has the same in Scala (``schedcore.Ledger``); the sequences in
``protocol/golden`` bind the two.
"""
