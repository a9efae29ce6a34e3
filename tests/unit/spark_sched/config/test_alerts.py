"""The alert rules and the limits agree."""

from __future__ import annotations

import re
from pathlib import Path

from spark_sched.config import ALL, keys

ALERTS = (Path(__file__).parents[4] / "conf" / "grafana" / "alerts.yaml").read_text(encoding="utf-8")


def _alert(name: str) -> str:
    return next(each for each in re.split(r"- alert: ", ALERTS) if each.startswith(name))


def test_the_alert_for_idle_held_slots_fires_above_what_the_limit_allows_by_default() -> None:
    (threshold,) = re.findall(
        r"slot_ms_held_idle_Count.*?application_slots_Value > ([\d.]+)$",
        _alert("SparkSchedHeldIdleShareHigh"),
        re.DOTALL | re.MULTILINE,
    )
    assert threshold == keys.LIMITS_IDLE_SHARE.default


def test_alerts_name_settings_that_there_are() -> None:
    named = {name.rstrip(".") for name in re.findall(r"spark\.sched\.[\w.]+", ALERTS)}
    assert named
    assert named <= {key.name for key in ALL}
