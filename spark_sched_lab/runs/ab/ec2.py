"""An A/B test on an EC2 cluster: the same command, run on the master, with its results in S3."""

from __future__ import annotations

import hashlib
import shlex
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spark_sched.errors import BadInputError
from spark_sched.files import write_whole
from spark_sched_lab.runs.ab.command import STANDALONE, report, tell_if_too_short
from spark_sched_lab.runs.ab.cost import add_command
from spark_sched_lab.runs.ab.store import BASIS_FILE, RUNS_FILE, SUITE_FILE, RunStore, open_store
from spark_sched_lab.runs.ab.suite import Suite
from spark_sched_lab.runs.clusters import ClusterError
from spark_sched_lab.runs.clusters.ec2 import Account, Stack, fetch, find_stack, run_script, upload
from spark_sched_lab.runs.paired.live import worker_needs

_FILES = (SUITE_FILE, BASIS_FILE, RUNS_FILE)
_HOME = "/var/lib/spark-sched"
_ENVIRONMENT = "/opt/spark-sched/venv"

Note = Callable[[str], None]


def run_on_ec2(
    suite: Suite, out: Path, account: Account, name: str, hours: int, note: Note
) -> dict[str, Any]:
    """Run the suite's missing runs on a stack and report them in ``out``, costs included.

    Raises BadInputError if the stack does not fit the suite, ClusterError if the command fails.
    """
    tell_if_too_short(suite, note)
    stack = _fitting(suite, account, name)
    per_hour = stack.dollars_per_hour
    note(f"estimate: {per_hour:.2f} dollars per hour, at most {per_hour * hours:.2f} in {hours} h")
    bucket = stack.outputs["Bucket"]
    with open_store(out, suite, {"on": STANDALONE}) as store:
        prefix = f"spark-sched/{name}/runs/{_identity(suite, out)}"
        _share(account, bucket, f"{prefix}/out", out, store)
        upload(account, bucket, f"{prefix}/suite.toml", suite.text.encode())
        script = master_script(stack.outputs["MasterUrl"], f"s3://{bucket}/{prefix}", account.region)
        note(f"running on {stack.outputs['MasterId']}")
        began_s = time.monotonic()
        try:
            comment = "spark-sched ab run"
            run_script(account, stack.outputs["MasterId"], script, comment, hours * 3600)
        finally:
            nodes = {"master": 1, "worker": stack.workers, "nat": 1}
            add_command(out, per_hour, time.monotonic() - began_s, nodes)
            found = _take(account, bucket, f"{prefix}/out", out, store)
        if RUNS_FILE not in found:
            raise ClusterError(f"the command ended without runs in s3://{bucket}/{prefix}/out")
    return report(out)


def _share(account: Account, bucket: str, place: str, out: Path, store: RunStore) -> None:
    """Upload the finished runs that the bucket lacks (for example those of another stack), so that the master
    continues from there."""
    with tempfile.TemporaryDirectory() as folder:
        fetch(account, bucket, place, (RUNS_FILE,), Path(folder))
        there = store.add_missing(Path(folder) / RUNS_FILE)
    if store.records.keys() - there:
        for name in reversed(_FILES):  # a folder that has a suite is complete
            upload(account, bucket, f"{place}/{name}", (out / name).read_bytes())


def _take(account: Account, bucket: str, place: str, out: Path, store: RunStore) -> list[str]:
    """Download the bucket's runs into this folder; returns the names of the bucket's files.

    A recreated master may have fewer runs than this folder: the local files stay.
    """
    with tempfile.TemporaryDirectory() as folder:
        found = fetch(account, bucket, place, _FILES, Path(folder))
        store.add_missing(Path(folder) / RUNS_FILE)
        if BASIS_FILE in found:
            # The machine of the runs is the master.
            write_whole(out / BASIS_FILE, (Path(folder) / BASIS_FILE).read_text(encoding="utf-8"))
    return found


def master_script(master_url: str, place: str, region: str) -> str:
    """The bash script of the master, run as root: results so far from S3, `ab run`, results to S3.

    Results are uploaded twice a minute, since a master can be lost. A master that already has runs keeps
    them.
    """
    folder = f"{_HOME}/runs/{place.rpartition('/')[2]}"
    return f"""#!/bin/bash
set -euo pipefail
export PATH={_ENVIRONMENT}/bin:$PATH AWS_DEFAULT_REGION={shlex.quote(region)} HOME={_HOME}
folder={shlex.quote(folder)}
place={shlex.quote(place)}
mkdir -p "$folder/out"
aws s3 cp --no-progress "$place/suite.toml" "$folder/suite.toml"
[ -s "$folder/out/runs.jsonl" ] || aws s3 cp --no-progress --recursive "$place/out" "$folder/out"
chown -R spark:spark "$folder"
store() {{ aws s3 cp --no-progress --recursive "$folder/out" "$place/out"; }}
(while sleep 30; do store; done) >/dev/null 2>&1 &
saver=$!
trap 'kill $saver; store >/dev/null' EXIT
runuser -u spark -- "$(command -v spark-sched)" ab run "$folder/suite.toml" --out "$folder/out" \\
  --master {shlex.quote(master_url)} --json >/dev/null 2>"$folder/log" \\
  || {{ tail -n 30 "$folder/log" >&2; exit 1; }}
"""


def _fitting(suite: Suite, account: Account, name: str) -> Stack:
    stack = find_stack(account, name)
    if stack is None:
        raise BadInputError(
            f"--stack is {name!r}, and there is no such stack in {account.region}: run `spark-sched ec2 up`"
        )
    if not stack.usable:
        raise BadInputError(f"stack {name} is in {stack.status}: see `spark-sched ec2 status --stack {name}`")
    slots, memory_gb = worker_needs(suite.cluster, suite.arms)
    has = (stack.workers, int(stack.outputs["WorkerSlots"]), int(stack.outputs["WorkerMemory"].rstrip("g")))
    needs = (suite.cluster.workers, slots, memory_gb)
    if has[0] != needs[0] or has[1] < needs[1] or has[2] < needs[2]:
        raise BadInputError(
            f"the suite needs {needs[0]} workers with {needs[1]} slots and {needs[2]} GB each, but stack "
            f"{name} has {has[0]} with {has[1]} and {has[2]} GB: run `spark-sched ec2 up` with this suite"
        )
    return stack


def _identity(suite: Suite, out: Path) -> str:
    """The name of the results in the bucket: another folder or version of the suite starts from zero."""
    return hashlib.sha256(f"{out.resolve()}\n{suite.text}".encode()).hexdigest()[:16]
