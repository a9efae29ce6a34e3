"""Runs of an A/B test on EC2: what is finished here or in the bucket is never lost."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

pytest.importorskip("botocore")

from spark_sched_lab.reports.machine import basis
from spark_sched_lab.runs.ab import ec2
from spark_sched_lab.runs.ab.command import STANDALONE
from spark_sched_lab.runs.ab.schedule import block_runs
from spark_sched_lab.runs.ab.store import Record, open_store, read_results
from spark_sched_lab.runs.ab.suite import parse_suite

SUITE = """
[runs]
blocks = 3
[[workload]]
name = "sleep"
sleepms = 100
[[arm]]
name = "stock"
scheduler = "fair"
[[arm]]
name = "ours"
"""


class Bucket:
    """Objects by key. The master finds none of its own runs and is cut short after its first run."""

    def __init__(self, suite):
        self.suite = suite
        self.objects = {}
        self.found = []

    def upload(self, _account, _bucket, key, content):
        self.objects[key] = content

    def fetch(self, _account, _bucket, prefix, names, directory):
        found = [name for name in names if f"{prefix}/{name}" in self.objects]
        for name in found:
            (directory / name).write_bytes(self.objects[f"{prefix}/{name}"])
        return found

    def run_script(self, *_):
        place = next(key for key in self.objects if not key.endswith("/out/suite.toml")).rpartition("/")[0]
        place = place.removesuffix("/out") + "/out"
        self.found = self.objects.get(f"{place}/runs.jsonl", b"").splitlines()
        run = Record(2, "sleep", "ours", 1, 9.0)
        cut = b'{"block": 2, "work'
        self.objects[f"{place}/runs.jsonl"] = json.dumps(asdict(run)).encode() + b"\n" + cut
        self.objects[f"{place}/suite.toml"] = self.suite.text.encode()
        self.objects[f"{place}/basis.json"] = json.dumps(
            {**basis(), "on": STANDALONE, "it": "master"}
        ).encode()


@pytest.fixture
def suite():
    return parse_suite(SUITE, "suite.toml")


@pytest.fixture
def bucket(suite, monkeypatch):
    found = Bucket(suite)
    for name in ("upload", "fetch", "run_script"):
        monkeypatch.setattr(ec2, name, getattr(found, name))
    outputs = {"Workers": "2", "WorkerSlots": "99", "WorkerMemory": "99g", "Bucket": "b"}
    outputs |= {"MasterUrl": "spark://m:7077", "MasterId": "i-1"}
    outputs |= {"PriceMaster": "1", "PriceWorker": "1", "PriceNat": "0"}
    stack = ec2.Stack("new", "CREATE_COMPLETE", outputs)
    monkeypatch.setattr(ec2, "find_stack", lambda *_: stack)
    return found


class Account:
    region = "eu-central-1"


def test_a_new_stack_goes_on_from_the_runs_here_and_its_own_are_added(bucket, suite, tmp_path):
    with open_store(tmp_path, suite, {**basis(), "on": STANDALONE}) as store:
        for block in range(2):
            for key in block_runs(suite, block):
                store.append(Record(block, key.workload, key.setting, 1, 1.0))
    earlier = read_results(tmp_path)[2]
    ec2.run_on_ec2(suite, tmp_path, Account(), "new", 1, lambda _: None)
    assert len(bucket.found) == len(earlier) == 6
    _, where, later = read_results(tmp_path)
    assert {key: later[key] for key in earlier} == earlier
    assert [run.jct_s for key, run in later.items() if key not in earlier] == [9.0]
    assert where["it"] == "master"


def test_a_run_that_both_have_stays_as_it_is_here(bucket, suite, tmp_path):
    with open_store(tmp_path, suite, {**basis(), "on": STANDALONE}) as store:
        for key in block_runs(suite, 2):
            store.append(Record(2, key.workload, key.setting, 1, 1.0))
    ec2.run_on_ec2(suite, tmp_path, Account(), "new", 1, lambda _: None)
    assert {run.jct_s for run in read_results(tmp_path)[2].values()} == {1.0}
