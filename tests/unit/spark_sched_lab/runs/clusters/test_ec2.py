"""``spark-sched ec2`` and ``ab run --on ec2`` against moto's server. The test plays the SSM agent.

moto records a command that is sent and calls it successful. `agent` runs it with bash on this machine:
``aws``, ``runuser`` and ``chown`` are replaced, and ``ab run --master URL`` runs in the simulator (on a real
cluster it runs in tests/integration/test_ab_standalone.py).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

boto3 = pytest.importorskip("boto3", reason="needs the extra ec2: pip install 'spark-sched[ec2]'")
server = pytest.importorskip("moto.server", reason="needs moto[server], of the extra dev")

from spark_sched.cli.app import app  # noqa: E402
from spark_sched_lab.runs.clusters.ec2 import remote, stack  # noqa: E402
from spark_sched_lab.runs.clusters.local import ClusterError  # noqa: E402
from tests.environment import clean_environment  # noqa: E402
from tests.unit.spark_sched_lab.runs.clusters.ec2_programs import AWS, RUNUSER  # noqa: E402

REGION = "eu-central-1"
ROOT = Path(__file__).parents[5]
SUITE = """
name = "two levels"
[cluster]
workers = 2
slots = 4
[runs]
blocks = 6
[background]
source = "sleep"
jobs = 2
[[workload]]
name = "sleep"
sleepms = 200
stages = 2
tasks = 3
[[arm]]
name = "stock"
scheduler = "fair"
[[arm]]
name = "P = 1"
isolation = 1
"""
PRICES = ("--price", "master=0.25", "--price", "worker=0.5", "--price", "nat=0.05")
PER_HOUR = 0.25 + 2 * 0.5 + 0.05
MONEY = ("--bucket", "results", "--budget", "50", "--email", "me@example.com")


@pytest.fixture(scope="module")
def endpoint():
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


@pytest.fixture
def account(endpoint, monkeypatch, tmp_path):
    """An empty account with a bucket, and short waits."""
    import urllib.request

    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/moto-api/reset", method="POST")).close()
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": str(tmp_path / "no-config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "no-credentials"),
    }.items():
        monkeypatch.setenv(name, value)
    boto3.client("s3").create_bucket(
        Bucket="results", CreateBucketConfiguration={"LocationConstraint": REGION}
    )


@pytest.fixture
def moto_deletes(monkeypatch):
    """moto's CloudFormation leaves route tables and NAT gateways behind, and then cannot delete the VPC."""
    from moto.ec2.models import ec2_backends
    from moto.ec2.models.nat_gateways import NatGateway
    from moto.ec2.models.route_tables import RouteTable

    def delete_table(self, account, region):
        backend = ec2_backends[account][region]
        for association in list(self.associations):
            backend.disassociate_route_table(association)
        backend.delete_route_table(self.id)

    def delete_nat(self, account, region):
        ec2_backends[account][region].delete_nat_gateway(self.id)

    monkeypatch.setattr(RouteTable, "delete", delete_table, raising=False)
    monkeypatch.setattr(NatGateway, "delete", delete_nat, raising=False)


@pytest.fixture
def suite(tmp_path):
    path = tmp_path / "suite.toml"
    path.write_text(SUITE)
    return path


@pytest.fixture
def agent(account, monkeypatch, tmp_path):
    """Runs each sent command before its end is awaited; returns what the SSM agent saw."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in {
        "aws": AWS.format(python=sys.executable),
        "runuser": RUNUSER.format(python=sys.executable),
        "chown": "#!/bin/sh\nexit 0\n",
        "spark-sched": "#!/bin/sh\nexit 64\n",
    }.items():
        (tools / name).write_text(text)
        (tools / name).chmod(stat.S_IRWXU)
    masters = tmp_path / "masters"
    seen = {"masters": masters, "home": tmp_path / "master", "done": []}
    await_end = remote._await

    def run_then_await(client, command, instance, limit_s):
        sent = client.list_commands(CommandId=command)["Commands"][0]
        (script,) = sent["Parameters"]["commands"]
        environment = clean_environment() | {
            **{name: value for name, value in os.environ.items() if name.startswith("AWS_")},
            "PATH": f"{tools}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "MASTERS": str(masters),
        }
        done = subprocess.run(
            ["bash", "-c", script.replace("/var/lib/spark-sched", str(seen["home"]))],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        seen["done"].append((instance, sent, done))
        await_end(client, command, instance, limit_s)

    monkeypatch.setattr(remote, "_await", run_then_await)
    return seen


def call(*arguments):
    return CliRunner().invoke(app, arguments, prog_name="spark-sched", catch_exceptions=False)


def up(suite, *more):
    return call("ec2", "up", str(suite), *MONEY, *PRICES, *with_wheel(suite, more))


def with_wheel(suite, arguments):
    """The arguments with a wheel, if they have none."""
    if "--wheel" in arguments:
        return arguments
    wheel = suite.with_name("spark_sched-1.0-py3-none-any.whl")
    wheel.write_bytes(b"PK a wheel")
    return (*arguments, "--wheel", str(wheel))


def test_the_template_passes_cfn_lint():
    pytest.importorskip("cfnlint", reason="needs cfn-lint, of the extra dev")
    from cfnlint.api import lint_file

    found = lint_file(ROOT / "conf" / "ec2" / "cluster.yaml")
    assert [f"{match.rule.id} line {match.linenumber}: {match.message}" for match in found] == []


def test_nothing_outside_reaches_a_node():
    from cfnlint.decode.cfn_yaml import loads

    resources = loads(stack.template())["Resources"]
    ingress = [r["Properties"] for r in resources.values() if r["Type"] == "AWS::EC2::SecurityGroupIngress"]
    assert [rule["SourceSecurityGroupId"] for rule in ingress] == [{"Ref": "NodeGroup"}]
    groups = [r["Properties"] for r in resources.values() if r["Type"] == "AWS::EC2::SecurityGroup"]
    assert all("SecurityGroupIngress" not in group for group in groups)
    subnets = [r["Properties"] for r in resources.values() if r["Type"] == "AWS::EC2::Subnet"]
    assert all(subnet["MapPublicIpOnLaunch"] is False for subnet in subnets)


def test_everything_that_can_be_tagged_is():
    from cfnlint.decode.cfn_yaml import loads
    from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

    tagged = 0
    for name, resource in loads(stack.template())["Resources"].items():
        schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", resource["Type"]).schema
        properties = resource["Properties"]
        if schema["tagging"]["taggable"]:
            rows = properties[schema["tagging"]["tagProperty"].rpartition("/")[2]]
        elif "TagSpecifications" in schema["properties"]:
            (rows,) = (one["Tags"] for one in properties["TagSpecifications"])
        else:
            continue
        tagged += 1
        assert {tag["Key"] for tag in rows} >= {"Project", "Stack"}, name
    assert tagged >= 17


def test_the_master_may_write_results_only_and_a_worker_nothing():
    from cfnlint.decode.cfn_yaml import loads

    resources = loads(stack.template())["Resources"]
    objects = {
        role: [
            (actions, statement["Resource"]["Fn::Sub"].partition("${AWS::StackName}")[2])
            for policy in resources[role]["Properties"]["Policies"]
            for statement in policy["PolicyDocument"]["Statement"]
            if "Object" in str(actions := statement["Action"])
        ]
        for role in ("MasterRole", "WorkerRole")
    }
    assert objects == {
        "MasterRole": [("s3:GetObject", "/*"), ("s3:PutObject", "/runs/*")],
        "WorkerRole": [("s3:GetObject", "/wheels/*")],
    }


@pytest.mark.parametrize("name", ["MasterTemplate", "WorkerTemplate"])
def test_user_data_is_a_script_that_bash_can_read(name):
    from cfnlint.decode.cfn_yaml import loads

    data = loads(stack.template())["Resources"][name]["Properties"]["LaunchTemplateData"]["UserData"]
    script = data["Fn::Base64"]["Fn::Sub"]
    assert "\nEOF\n" in script
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.filterwarnings("ignore:Tried to parse")  # moto knows no budgets
def test_up_run_down(agent, moto_deletes, suite, tmp_path):
    wheel = tmp_path / "spark_sched-1.0-py3-none-any.whl"
    wheel.write_bytes(b"PK a wheel")
    first = up(suite, "--wheel", str(wheel), "--spot")
    assert first.exit_code == 0, first.output
    assert f"estimate: {PER_HOUR:.2f} dollars per hour" in first.stderr
    state = json.loads(call("ec2", "status", "--json").stdout)
    assert state["status"] == "CREATE_COMPLETE"
    assert state["dollars_per_hour"] == pytest.approx(PER_HOUR)
    assert (state["outputs"]["WorkerSlots"], state["outputs"]["WorkerMemory"]) == ("8", "4g")
    fleet = boto3.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"][0]
    assert (fleet["MinSize"], fleet["MaxSize"], len(fleet["Instances"])) == (2, 2, 2)
    keys = [row["Key"] for row in boto3.client("s3").list_objects_v2(Bucket="results")["Contents"]]
    assert len(keys) == 1
    assert keys[0].endswith(wheel.name)
    stack = boto3.client("cloudformation").describe_stacks()["Stacks"][0]
    parameters = {each["ParameterKey"]: each["ParameterValue"] for each in stack["Parameters"]}
    assert parameters["WheelKey"] == keys[0]
    assert parameters["WheelSha256"] == hashlib.sha256(b"PK a wheel").hexdigest()

    again = up(suite, "--wheel", str(wheel), "--spot")
    assert again.exit_code == 0, again.output
    assert json.loads(call("ec2", "status", "--json").stdout)["outputs"] == state["outputs"]

    out = tmp_path / "out"
    run = call("ab", "run", str(suite), "--on", "ec2", "--out", str(out), "--hours", "2", "--json")
    (instance, sent, done), *_ = agent["done"]
    assert done.returncode == 0, done.stderr
    assert run.exit_code == 0, run.output
    assert f"at most {2 * PER_HOUR:.2f} in 2 h" in run.stderr
    assert instance == state["outputs"]["MasterId"]
    assert sent["Parameters"]["executionTimeout"] == ["7200"]
    assert agent["masters"].read_text() == state["outputs"]["MasterUrl"] + "\n"
    document = json.loads(run.stdout)
    assert document == json.loads((out / "results.json").read_text())
    cost = document["cost"]
    assert cost["nodes"] == {"master": 1, "worker": 2, "nat": 1}
    assert cost["dollars_per_hour"] == pytest.approx(PER_HOUR)
    assert cost["dollars"] == pytest.approx(cost["hours"] * PER_HOUR, abs=2e-6)
    for arm in ("stock", "P = 1", "alone"):
        rows = [json.loads(line) for line in (out / "runs.jsonl").read_text().splitlines()]
        mine = [max(r["jct_s"], r["background_makespan_s"] or 0) for r in rows if r["setting"] == arm]
        assert cost["arms"][arm]["dollars"] == pytest.approx(sum(mine) / 3600 * PER_HOUR, abs=1e-4)
        assert cost["arms"][arm]["dollars"] > 0

    # A new master has no runs of its own: it continues with those of the bucket. Here they were simulated.
    basis = (out / "basis.json").read_text(encoding="utf-8")
    (out / "basis.json").write_text(basis.replace("the simulator", "a standalone cluster"), encoding="utf-8")
    runs = (out / "runs.jsonl").read_bytes()
    subprocess.run(["rm", "-r", str(agent["home"])], check=True)
    later = call("ab", "run", str(suite), "--on", "ec2", "--out", str(out), "--json")
    assert later.exit_code == 0, later.output
    assert (out / "runs.jsonl").read_bytes() == runs
    assert json.loads(later.stdout)["cost"]["hours"] > cost["hours"]

    gone = call("ec2", "down")
    assert (gone.exit_code, gone.stdout) == (0, "spark-sched: removed\n")
    assert (
        boto3.client("ec2").describe_nat_gateways(Filters=[{"Name": "state", "Values": ["available"]}])[
            "NatGateways"
        ]
        == []
    )
    twice = call("ec2", "down")
    assert (twice.exit_code, twice.stdout) == (0, "spark-sched: there is no such stack\n")
    refused = call("ab", "run", str(suite), "--on", "ec2", "--out", str(out))
    assert refused.exit_code == 2
    assert "run `spark-sched ec2 up`" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (PRICES[:2], "the price of worker (m6i.2xlarge) is missing"),
        (PRICES[:4], "the price of nat (the NAT gateway) is missing"),
        ((*PRICES, "--price", "nat=1"), "--price nat is given twice"),
        ((*PRICES, "--price", "wroker=1"), "did you mean 'worker'?"),
        (("--price", "master=cheap"), "must be dollars per hour"),
        ((*PRICES, "--worker-type", "m99.huge"), "'m99.huge', which eu-central-1 does not have"),
        ((*PRICES, "--worker-type", "t3.micro"), "name a larger one"),
        ((*PRICES, "--region", "eu-nowhere-1"), "the region is 'eu-nowhere-1' but must be one of"),
        ((*PRICES, "--stack", "my stack"), "--stack is 'my stack'"),
        ((*PRICES, "--wheel", "absent.whl"), "--wheel: absent.whl cannot be read"),
        ((*PRICES, "--wheel", __file__), "which is not a wheel: make one with `python -m build`"),
    ],
)
def test_wrong_input_is_refused_in_one_sentence(account, suite, arguments, says):
    done = call("ec2", "up", str(suite), *MONEY, *with_wheel(suite, arguments))
    assert done.exit_code == 2, done.output
    assert says in done.stderr
    assert boto3.client("cloudformation").describe_stacks()["Stacks"] == []


def test_a_wheel_is_required_and_nodes_install_nothing_else(suite):
    done = call("ec2", "up", str(suite), *MONEY, *PRICES)
    assert done.exit_code == 2
    assert "Missing option '--wheel'" in done.output
    template = (ROOT / "conf" / "ec2" / "cluster.yaml").read_text()
    installs = re.findall(r"pip install .*", template)
    assert installs == ['pip install "$package[history,report,spark]"'] * 2
    assert template.count('echo "${WheelSha256}  $package" | sha256sum --check --strict') == 2


def test_missing_credentials_and_region(account, suite, monkeypatch):
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    done = call("ec2", "down")
    assert (done.exit_code, "the region is missing" in done.stderr) == (2, True)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    done = call("ec2", "status", "--region", REGION)
    assert (done.exit_code, "AWS credentials are missing" in done.stderr) == (2, True)


@pytest.mark.filterwarnings("ignore:Tried to parse")
def test_a_suite_that_the_stack_is_too_small_for(account, suite, tmp_path):
    assert up(suite).exit_code == 0
    larger = tmp_path / "larger.toml"
    larger.write_text(SUITE.replace("slots = 4", "slots = 5"))
    done = call("ab", "run", str(larger), "--on", "ec2", "--out", str(tmp_path / "out"))
    assert done.exit_code == 2
    assert "needs 2 workers with 10 slots and 4 GB each, but stack spark-sched has 2 with 8" in done.stderr


def test_a_stack_of_someone_else_is_left_alone(account, suite):
    cloud = boto3.client("cloudformation")
    body = "Resources: {Topic: {Type: AWS::SNS::Topic}}"
    cloud.create_stack(StackName="spark-sched", TemplateBody=body)
    for done in (up(suite), call("ec2", "down"), call("ec2", "status")):
        assert done.exit_code == 2
        assert "is not a cluster of spark_sched" in done.stderr
    assert len(cloud.describe_stacks()["Stacks"]) == 1


def test_a_failed_stack_tells_the_first_reason(tmp_path, monkeypatch):
    events = [  # latest first, as AWS gives them
        ("spark-sched", "ROLLBACK_COMPLETE", ""),
        ("Nat", "CREATE_FAILED", "Resource creation cancelled"),
        ("Master", "CREATE_FAILED", "You have requested more vCPU capacity than your limit of 5"),
        ("spark-sched", "CREATE_IN_PROGRESS", "User Initiated"),
        ("Vpc", "CREATE_FAILED", "of an earlier stack"),
    ]

    class Fake:
        region = REGION

        def client(self, _):
            return self

        def describe_stacks(self, StackName):
            tags = [{"Key": "Project", "Value": "spark_sched"}]
            return {"Stacks": [{"StackStatus": "ROLLBACK_COMPLETE", "Tags": tags}]}

        def describe_instance_types(self, InstanceTypes):
            kind = {
                "MemoryInfo": {"SizeInMiB": 32768},
                "ProcessorInfo": {"SupportedArchitectures": ["arm64"]},
            }
            return {"InstanceTypes": [kind]}

        def get_paginator(self, _):
            return self

        def paginate(self, StackName):
            names = ("LogicalResourceId", "ResourceStatus", "ResourceStatusReason")
            return [{"StackEvents": [dict(zip(names, event, strict=True)) for event in events]}]

    (tmp_path / "a.whl").write_bytes(b"PK")
    monkeypatch.setattr(stack, "upload", lambda *_: None)
    spec = stack.StackSpec(
        "spark-sched",
        "b",
        "m7g.large",
        "m7g.large",
        1,
        4,
        2,
        False,
        1,
        "a@b",
        stack.HourlyPrices(1, 1, 1),
        tmp_path / "a.whl",
    )
    with pytest.raises(ClusterError, match="is in ROLLBACK_COMPLETE \\(Master: You have requested more vCPU"):
        stack.bring_up(Fake(), spec, lambda _: None)


def test_an_interruption_cancels_the_command(monkeypatch):
    calls = []

    class Client:
        def send_command(self, **_):
            return {"Command": {"CommandId": "c-1"}}

        def cancel_command(self, **which):
            calls.append(which)

        exceptions = type("Exceptions", (), {"InvalidInstanceId": KeyError})

    class Fake:
        def client(self, _):
            return Client()

    def interrupted(*_):
        assert threading.current_thread() is threading.main_thread()
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(remote, "_await", interrupted)
    with pytest.raises(KeyboardInterrupt):
        remote.run_script(Fake(), "i-1", "true", "", 60)
    assert calls == [{"CommandId": "c-1"}]
