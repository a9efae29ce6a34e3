"""A Spark standalone cluster on EC2: brought up, used and removed. Needs the extra ``ec2`` (boto3)."""

from spark_sched_lab.runs.clusters.ec2.clients import Account
from spark_sched_lab.runs.clusters.ec2.prices import read_prices
from spark_sched_lab.runs.clusters.ec2.remote import fetch, run_script, upload
from spark_sched_lab.runs.clusters.ec2.stack import Stack, StackSpec, bring_up, find_stack, take_down

__all__ = [
    "Account",
    "Stack",
    "StackSpec",
    "bring_up",
    "fetch",
    "find_stack",
    "read_prices",
    "run_script",
    "take_down",
    "upload",
]
