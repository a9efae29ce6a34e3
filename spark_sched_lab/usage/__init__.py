"""Who used the executors' slot time and energy, and for what (``spark-sched usage``)."""

from spark_sched_lab.usage.account import KINDS, GroupBy, Statement, account
from spark_sched_lab.usage.energy import EnergyStatement, account_energy
from spark_sched_lab.usage.event_log import usage_of_event_log
from spark_sched_lab.usage.events_file import is_recorded, usage_of_recorded
from spark_sched_lab.usage.power import HostType, PowerProfile, read_profile
from spark_sched_lab.usage.records import ChargedAttempt, Hold, Owner, Presence, Usage

__all__ = [
    "KINDS",
    "ChargedAttempt",
    "EnergyStatement",
    "GroupBy",
    "Hold",
    "HostType",
    "Owner",
    "PowerProfile",
    "Presence",
    "Statement",
    "Usage",
    "account",
    "account_energy",
    "is_recorded",
    "read_profile",
    "usage_of_event_log",
    "usage_of_recorded",
]
