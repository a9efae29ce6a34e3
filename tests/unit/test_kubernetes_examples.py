"""The image's recipe and the operator's examples agree with the settings and with each other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from spark_sched.attach.properties import PLUGIN
from spark_sched.config import read_properties, validate

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (extra dev)")

#: Where the image has spark_sched; its properties name these.
PATHS = {
    "spark.driver.extraClassPath": "/opt/spark-sched/bridge.jar",
    "spark.sched.planner.python": "/opt/spark-sched/bin/python",
}
#: Fields of the operator's v1beta2 API, `api/v1beta2/sparkapplication_types.go`; the required ones.
REQUIRED = {"type", "sparkVersion", "mainApplicationFile", "driver", "executor"}
OPTIONAL = {"mode", "image", "pythonVersion", "restartPolicy", "sparkConf", "deps"}
#: Keys of the chart's values.yaml.
VALUES = {
    "spark": {"jobNamespaces", "serviceAccount", "rbac"},
    "controller": {"uiService"},
    "webhook": {"enable"},
}


def properties_of_the_application(root: Path) -> dict[str, Any]:
    application = yaml.safe_load((root / "conf" / "spark-operator" / "application.yaml").read_text())
    found: dict[str, Any] = application["spec"]["sparkConf"]
    return found


def properties_of_the_file(root: Path) -> dict[str, str]:
    return read_properties(root / "conf" / "kubernetes.conf")


@pytest.mark.parametrize("read", [properties_of_the_application, properties_of_the_file])
def test_the_properties_exist_and_name_the_paths_of_the_image(root, read):
    properties = read(root)
    # The operator refuses numbers and booleans.
    assert all(isinstance(value, str) for value in properties.values())
    # Unknown keys, units and ranges raise.
    validate(properties)
    assert properties["spark.plugins"] == PLUGIN
    assert {name: properties[name] for name in PATHS} == PATHS


def test_the_application_has_the_fields_of_the_operators_api_and_the_charts_account(root):
    folder = root / "conf" / "spark-operator"
    application = yaml.safe_load((folder / "application.yaml").read_text())
    values = yaml.safe_load((folder / "values.yaml").read_text())
    assert application["apiVersion"] == "sparkoperator.k8s.io/v1beta2"
    assert application["kind"] == "SparkApplication"
    spec = application["spec"]
    assert set(spec) >= REQUIRED
    assert set(spec) <= REQUIRED | OPTIONAL
    assert {name: set(value) for name, value in values.items()} == VALUES
    assert application["metadata"]["namespace"] in values["spark"]["jobNamespaces"]
    assert spec["driver"]["serviceAccount"] == values["spark"]["serviceAccount"]["name"]
    assert spec["image"].endswith(f":{spec['sparkVersion']}")


def instructions(text: str) -> list[tuple[str, str]]:
    """Of a Dockerfile, with continued lines joined."""
    code = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))
    lines = code.replace("\\\n", " ").splitlines()
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines if line.strip())]


def test_the_image_has_what_the_properties_name_and_runs_as_sparks_user(root):
    found = instructions((root / "conf" / "container" / "Dockerfile").read_text())
    assert {word for word, _ in found} == {"ARG", "FROM", "USER", "RUN", "COPY"}
    # Spark's user, and root only before it.
    assert [rest for word, rest in found if word == "USER"] == ["root", "185"]
    assert found[-1] == ("USER", "185")
    runs = [rest for word, rest in found if word == "RUN"]
    for run in runs:
        # Each command fails the build, and the layer keeps no lists and no caches.
        assert ";" not in run
        assert "apt-get install" not in run or "rm -rf /var/lib/apt/lists/*" in run
        assert "pip install" not in run or "--no-cache-dir" in run
    (made,) = [run for run in runs if "venv /opt/spark-sched" in run]
    assert re.search(rf"install --mode=644 .* {PATHS['spark.driver.extraClassPath']}(?= )", made)
    assert f"{Path(PATHS['spark.sched.planner.python']).parent}/pip install" in made
    given = {name for name, _ in (rest.split("=") for word, rest in found if word == "ARG")}
    used = set(re.findall(r"\$\{(\w+)\}", " ".join(rest for _, rest in found)))
    assert used == given
