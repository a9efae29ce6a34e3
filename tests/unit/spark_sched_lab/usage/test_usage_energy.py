"""``spark-sched usage --energy``: the energy of every host is charged once, to whoever caused it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from spark_sched.cli.app import app
from spark_sched.errors import BadInputError
from spark_sched.protocol.events import ExecutorAdded, JobStarted, TaskEnded, TaskLaunched
from spark_sched_lab.energy import SERVER_TYPES
from spark_sched_lab.usage import (
    ChargedAttempt,
    EnergyStatement,
    Hold,
    HostType,
    Owner,
    PowerProfile,
    Presence,
    Usage,
    account_energy,
    read_profile,
)
from tests.encoding import encode_event

THESIS = Path(__file__).parents[4] / "conf" / "energy" / "thesis.toml"
#: 100 W idle, 60 W more with all of two slots busy.
HOST = PowerProfile(HostType("host", 100.0, 60.0, 2))
OWNERS = {"a": Owner("a", "ann", ""), "b": Owner("b", "bob", "")}


def attempt(start_ms: int, end_ms: int, outcome: str = "success", **changed: Any) -> ChargedAttempt:
    known = {"job": "a", "stage": "a.0", "index": 0, "executor": "1"} | changed
    return ChargedAttempt(start_ms=start_ms, end_ms=end_ms, outcome=outcome, **known)


def charged(found: EnergyStatement) -> dict[tuple[str, ...], dict[str, float]]:
    return {row.group: {kind: j for kind, j in row.joules.items() if j} for row in found.rows}


def account(*attempts: ChargedAttempt, by: Any = ("name",), **changed: Any) -> EnergyStatement:
    known = {"executors": [Presence("1", 2, 0, 10_000, "h")], "holds": []} | changed
    return account_energy([Usage(known["executors"], OWNERS, list(attempts), known["holds"])], HOST, by)


def test_a_slot_carries_its_part_of_the_idle_power_and_a_busy_one_also_of_the_dynamic_power():
    found = account(attempt(0, 4_000), holds=[Hold("b", "1", 1_000, 3_000)])
    assert charged(found) == {("a",): {"run": 4 * (50 + 30)}, ("b",): {"held": 2 * 50}}
    assert found.energy_j == 10 * 100 + 4 * 30
    assert found.idle_j == found.energy_j - 320 - 100


def test_an_evicted_attempt_is_charged_to_the_job_that_it_was_evicted_for():
    lost = attempt(0, 1_000, "killed", evicted_for="b")
    assert charged(account(lost, attempt(1_000, 2_000))) == {("a",): {"run": 80}, ("b",): {"evicted": 80}}


def test_a_cancelled_attempt_and_a_copy_are_charged_to_their_own_job():
    found = account(
        attempt(0, 1_000),
        attempt(500, 1_000, "killed"),
        attempt(2_000, 3_000, "killed", index=1),
        by=("stage", "executor"),
    )
    assert charged(found) == {("a.0", "1"): {"run": 80, "copies": 40, "cancelled": 80}}


def test_a_host_draws_nothing_while_it_has_no_executor():
    gap = [Presence("1", 2, 0, 1_000, "h"), Presence("2", 2, 5_000, 6_000, "h")]
    found = account(executors=gap)
    assert (found.hosts[0].on_s, found.energy_j, found.idle_j) == (2.0, 200.0, 200.0)


def test_executors_of_one_host_share_its_idle_power():
    both = [Presence("1", 1, 0, 1_000, "h"), Presence("2", 1, 0, 1_000, "h")]
    found = account(attempt(0, 1_000), attempt(0, 1_000, job="b", stage="b.0", executor="2"), executors=both)
    assert charged(found) == {("a",): {"run": 80}, ("b",): {"run": 80}}
    assert (len(found.hosts), found.idle_j) == (1, 0.0)


def test_a_measurement_scales_the_shares_of_its_host_alone():
    executors = [Presence("1", 2, 0, 10_000, "h"), Presence("2", 2, 0, 10_000, "other")]
    usage = Usage(executors, OWNERS, [attempt(0, 4_000), attempt(0, 4_000, index=1, executor="2")])
    modelled = account_energy([usage], HOST, ("executor",))
    measured = account_energy([usage], replace(HOST, measured_j={"h": 2_240.0}), ("executor",))
    assert modelled.hosts[0].energy_j == 1_120
    assert charged(measured) == {("1",): {"run": 2 * 320}, ("2",): {"run": 320}}
    assert [host.energy_j for host in measured.hosts] == [2_240, 1_120]
    assert measured.idle_j == 2 * 800 + 800


_SPANS = st.tuples(st.integers(-500, 5_000), st.integers(0, 3_000), st.integers(1, 3), st.sampled_from("ab"))


@given(st.lists(_SPANS, max_size=12), st.lists(_SPANS, max_size=6), st.sampled_from([None, 1, 4]))
def test_owners_and_nobody_add_up_to_the_hosts_energy_whatever_overlaps(ran, held, slots):
    executors = [Presence("1", 2, 0, 4_000, "h"), Presence("2", 1, 1_000, 6_000, "h"), Presence("3", 0, 0, 9)]
    usage = Usage(
        executors,
        OWNERS,
        [
            attempt(at, at + long, "success", job=job, index=n, executor="12"[n % 2], slots=width)
            for n, (at, long, width, job) in enumerate(ran)
        ],
        [Hold(job, "1", at, at + long) for at, long, _, job in held],
    )
    found = account_energy([usage], PowerProfile(HostType("host", 100.0, 60.0, slots)))
    assert sum(row.total_j for row in found.rows) + found.idle_j == pytest.approx(found.energy_j)
    assert found.idle_j >= -1e-6


def test_the_example_profile_has_the_server_types_of_the_thesis(tmp_path):
    profile = read_profile(THESIS)
    assert profile.of("large-7").name == "D"
    assert profile.of("other").name == "A"
    for kind in SERVER_TYPES:
        changed = tmp_path / "changed.toml"
        changed.write_text(THESIS.read_text().replace('default = "A"', f'default = "{kind.name}"'))
        found = read_profile(changed)
        assert (found.default.idle_w, found.default.dynamic_w) == (kind.idle_w, kind.cpu_w + kind.memory_w)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "at least one host type"),
        ("[types.A]\nidle_w = 1", "types.A needs idle_w and cpu_w"),
        ("[types.A]\nidle_w = 1\ncpu_w = -1", "types.A.cpu_w is -1 but must be a number >= 0"),
        ("[types.A]\nidle_w = 1\ncpu_w = 1\nslots = 0", "types.A.slots is 0 but must be a whole number"),
        ("[types.A]\nidel_w = 1", "did you mean 'idle_w'"),
        ('default = "B"\n[types.A]\nidle_w = 1\ncpu_w = 1', "default is 'B' but must be one of A"),
        ("[types.A]\nidle_w = 1\ncpu_w = 1\n[hosts]\nx = 3", "hosts.x is 3 but must be one of A"),
        (
            "[types.A]\nidle_w = 1\ncpu_w = 1\n[measured_j]\nx = 0",
            "measured_j.x is 0 but must be a number",
        ),
        ("types = ", "is not a TOML file"),
    ],
)
def test_a_wrong_profile_is_refused_in_one_sentence(tmp_path, text, says):
    path = tmp_path / "profile.toml"
    path.write_text(text)
    with pytest.raises(BadInputError, match=says):
        read_profile(path)


def recorded(folder: Path) -> Path:
    """A job that runs, and a task of another that is killed for it and runs again."""
    events = [
        ExecutorAdded(0, "1", "h", 2),
        *(JobStarted(0, job, job, "ann", 0, 1.0, None, None, False, True) for job in "ab"),
        TaskLaunched(0, "a", "a.0", 1, 0, "1", False),
        TaskEnded(1_000, "a", "a.0", 1, 0, "1", 1_000, "killed", False, "b"),
        TaskLaunched(1_000, "b", "b.0", 2, 0, "1", False),
        TaskEnded(3_000, "b", "b.0", 2, 0, "1", 2_000, "success", False),
        TaskLaunched(3_000, "a", "a.0", 3, 0, "1", False),
        TaskEnded(4_000, "a", "a.0", 3, 0, "1", 1_000, "success", False),
    ]
    path = folder / "events.jsonl"
    path.write_text("".join(json.dumps(encode_event(event)) + "\n" for event in events))
    return path


def test_the_command_reports_energy_beside_slot_time(tmp_path):
    log, out = recorded(tmp_path), tmp_path / "rows.csv"
    told = ["usage", str(log), "--energy", str(THESIS), "--by", "name,stage"]
    result = CliRunner().invoke(app, [*told, "--out", str(out), "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["energy"]
    rows = {row["name"]: row for row in found["rows"]}
    assert rows["b"]["evicted_j"] == rows["a"]["run_j"] == pytest.approx(81 + 34.75)
    assert sum(row["total_j"] for row in found["rows"]) + found["idle_j"] == pytest.approx(found["energy_j"])
    assert found["hosts"] == [
        {"host": "h", "type": "A", "on_s": 4.0, "energy_j": 4 * (162 + 34.75), "idle_j": 4 * 81.0}
    ]
    assert "evicted_j" in out.read_text().splitlines()[0]
    assert "ran tasks to their end, 0.0% went to held slots" in CliRunner().invoke(app, told).stdout


def test_an_eviction_for_an_unknown_job_is_charged_to_it(tmp_path):
    lost = attempt(0, 1_000, "killed", evicted_for="gone")
    assert ("",) in charged(account(lost, attempt(1_000, 2_000)))
