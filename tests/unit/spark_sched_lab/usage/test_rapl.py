"""RAPL counters of a made-up host, and the command that reads them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from spark_sched.cli.app import app
from spark_sched.errors import BadInputError
from spark_sched_lab.usage.power import read_profile
from spark_sched_lab.usage.rapl import RaplMeter

THESIS = Path(__file__).parents[4] / "conf" / "energy" / "thesis.toml"
RANGE_UJ = 262_143_328_850


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two packages, one with a core part and memory, and the zones that would count them again."""
    folder = tmp_path / "powercap"
    zones = {
        "intel-rapl:0": "package-0", "intel-rapl:0:0": "core", "intel-rapl:0:1": "dram",
        "intel-rapl:1": "package-1", "intel-rapl:2": "psys", "intel-rapl-mmio:0": "package-0",
    }  # fmt: skip
    for zone, name in zones.items():
        (folder / zone).mkdir(parents=True)
        (folder / zone / "name").write_text(f"{name}\n")
        (folder / zone / "max_energy_range_uj").write_text(f"{RANGE_UJ}\n")
        (folder / zone / "energy_uj").write_text("1000000\n")
    (folder / "intel-rapl").mkdir()
    return folder


def count(root: Path, zone: str, energy_uj: int) -> None:
    (root / zone / "energy_uj").write_text(f"{energy_uj}\n")


def test_packages_and_memory_count_once(root: Path) -> None:
    meter = RaplMeter(root)
    assert meter.sample() == 0.0
    for zone in root.glob("intel-rapl*:*"):
        count(root, zone.name, 3_000_000)
    assert meter.sample() == 3 * 2.0
    assert meter.sample() == 3 * 2.0


def test_a_counter_that_starts_again_goes_on(root: Path) -> None:
    count(root, "intel-rapl:1", RANGE_UJ - 500_000)
    meter = RaplMeter(root)
    for _ in range(2):
        count(root, "intel-rapl:1", 1_500_000)
        meter.sample()
        count(root, "intel-rapl:1", RANGE_UJ - 500_000)
        meter.sample()
    count(root, "intel-rapl:1", 0)
    assert meter.sample() == pytest.approx(2 * RANGE_UJ / 1e6 + 0.5)


def test_what_cannot_be_read_is_named(root: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"has no RAPL counter \(intel-rapl:N\)"):
        RaplMeter(tmp_path / "none")
    (root / "intel-rapl:0" / "energy_uj").write_text("much\n")
    with pytest.raises(BadInputError, match="has 'much' but must have a number of microjoules"):
        RaplMeter(root)
    (root / "intel-rapl:0" / "energy_uj").unlink()
    with pytest.raises(BadInputError, match="energy_uj is not a readable RAPL file"):
        RaplMeter(root)


def run(root: Path, out: Path, code: str) -> Result:
    energy = ["energy", "--counters", str(root), "--host", "node-17", "--out", str(out)]
    return CliRunner().invoke(app, [*energy, sys.executable, "-c", code])


def test_the_command_writes_what_usage_reads(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "node.toml"
    counter = root / "intel-rapl:0" / "energy_uj"
    found = run(root, out, f"open({str(counter)!r}, 'w').write('43500000'); raise SystemExit(3)")
    assert found.exit_code == 3, found.output
    assert out.read_text() == '[measured_j]\n"node-17" = 42.500\n'
    assert read_profile(THESIS, [out]).measured_j == {"node-17": 42.5}
    with pytest.raises(BadInputError, match="gives the energy of host 'node-17' a second time"):
        read_profile(THESIS, [out, out])


def test_the_command_refuses_a_host_without_counters(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "node.toml"
    found = run(tmp_path / "none", out, "raise AssertionError")
    assert found.exit_code == 2
    assert "has no RAPL counter" in found.output
    found = run(root, out, "pass")
    assert found.exit_code == 2
    assert "did not change" in found.output
    assert not out.exists()


def test_usage_takes_a_measurement_beside_a_profile_only(tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["usage", str(tmp_path), "--measured", str(tmp_path / "node.toml")])
    assert found.exit_code == 2
    assert "--measured needs --energy PROFILE.toml" in found.output
