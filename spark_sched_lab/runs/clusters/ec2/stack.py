"""The CloudFormation stack of a cluster: up, found, down. Each may be repeated at any time."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError, WaiterError

from spark_sched.errors import BadInputError
from spark_sched.files import read_bytes
from spark_sched_lab.runs.clusters.ec2.clients import Account, aws_errors
from spark_sched_lab.runs.clusters.ec2.prices import HourlyPrices
from spark_sched_lab.runs.clusters.ec2.remote import PREFIX, upload
from spark_sched_lab.runs.clusters.local import ClusterError

_NAME = re.compile(r"^[A-Za-z][A-Za-z0-9-]{0,63}$")
_IMAGE = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-{}"
_TAGS = [{"Key": "Project", "Value": "spark_sched"}]
_USABLE = frozenset({"CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE"})
# What the operating system and Spark's daemon need beside the executors.
_SPARE_MB = 1024
_WAITS = {"Delay": 10, "MaxAttempts": 360}

Note = Callable[[str], None]


@dataclass(frozen=True)
class StackSpec:
    """A cluster to bring up. ``wheel``: the package that the nodes install, and no other."""

    name: str
    bucket: str
    master_type: str
    worker_type: str
    workers: int
    worker_slots: int
    worker_memory_gb: int
    spot: bool
    budget_dollars: float
    budget_email: str
    prices: HourlyPrices
    wheel: Path


@dataclass(frozen=True)
class Stack:
    """A stack that exists. ``outputs`` are those of the template; empty until it is up."""

    name: str
    status: str
    outputs: Mapping[str, str]

    @property
    def usable(self) -> bool:
        return self.status in _USABLE

    @property
    def workers(self) -> int:
        return int(self.outputs["Workers"])

    @property
    def dollars_per_hour(self) -> float:
        return self.prices.per_hour(self.workers)

    @property
    def prices(self) -> HourlyPrices:
        """The prices that were given to `bring_up`."""
        return HourlyPrices(*(float(self.outputs[f"Price{name}"]) for name in ("Master", "Worker", "Nat")))


def template() -> str:
    """The CloudFormation template's text, from the wheel or the checkout."""
    here = Path(__file__)
    for path in (here.with_name("cluster.yaml"), here.parents[4] / "conf" / "ec2" / "cluster.yaml"):
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise ClusterError("the CloudFormation template cluster.yaml is missing: install the package again")


def find_stack(account: Account, name: str) -> Stack | None:
    """The stack of a name, None if there is none.

    Raises BadInputError for a name that cannot be one, and for a stack that is something else: `down` would
    delete it.
    """
    if not _NAME.match(name):
        raise BadInputError(
            f"--stack is {name!r} but must be letters, digits and -, a letter first, at most 64"
        )
    with aws_errors():
        try:
            found = account.client("cloudformation").describe_stacks(StackName=name)["Stacks"][0]
        except ClientError as error:
            if "does not exist" in error.response["Error"]["Message"]:
                return None
            raise
    if _TAGS[0] not in found.get("Tags", ()):
        raise BadInputError(f"stack {name} is not a cluster of spark_sched: name another by --stack")
    outputs = {row["OutputKey"]: row["OutputValue"] for row in found.get("Outputs", ())}
    return Stack(name, found["StackStatus"], outputs)


def bring_up(account: Account, spec: StackSpec, note: Note) -> Stack:
    """Make the stack, or change an existing one to fit, and wait until its nodes run.

    Raises BadInputError for what cannot be, ClusterError with the stack's own reason if it fails.
    """
    found = find_stack(account, spec.name)
    parameters = _parameters(account, spec)
    cloud = account.client("cloudformation")
    if found is not None and found.status.endswith("_IN_PROGRESS"):
        note(f"stack {spec.name} is in {found.status}: waiting")
        _settle(account, found)
        found = find_stack(account, spec.name)
    if found is not None and not found.usable:
        raise ClusterError(
            f"stack {spec.name} is in {found.status}{failure(account, spec.name)}: "
            f"remove it by `spark-sched ec2 down --stack {spec.name}`"
        )
    request = {
        "StackName": spec.name,
        "TemplateBody": template(),
        "Parameters": [{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
        "Capabilities": ["CAPABILITY_IAM"],
        "Tags": [*_TAGS, {"Key": "Stack", "Value": spec.name}],
    }
    with aws_errors():
        if found is None:
            note(f"creating stack {spec.name}")
            cloud.create_stack(**request)
            _wait(account, spec.name, "stack_create_complete")
        elif _update(cloud, request):
            note(f"updating stack {spec.name}")
            _wait(account, spec.name, "stack_update_complete")
        else:
            note(f"stack {spec.name} is up already")
    stack = find_stack(account, spec.name)
    assert stack is not None
    return stack


def take_down(account: Account, name: str, note: Note) -> bool:
    """Delete the stack and wait until it is gone; False if there is none. The bucket stays."""
    if find_stack(account, name) is None:
        return False
    note(f"deleting stack {name}")
    with aws_errors():
        account.client("cloudformation").delete_stack(StackName=name)
        _wait(account, name, "stack_delete_complete")
    return True


def failure(account: Account, name: str) -> str:
    """``" (RESOURCE: reason)"`` of the first resource that failed last; empty if no event has one."""
    with aws_errors():
        pages = account.client("cloudformation").get_paginator("describe_stack_events")
        reasons: list[str] = []
        for page in pages.paginate(StackName=name):
            for event in page["StackEvents"]:  # latest first
                reason, resource = event.get("ResourceStatusReason", ""), event["LogicalResourceId"]
                if reason == "User Initiated":
                    return f" ({reasons[-1]})" if reasons else ""
                # Others are cancelled because of the first failure.
                if event["ResourceStatus"].endswith("_FAILED") and "cancelled" not in reason:
                    reasons.append(f"{resource}: {reason}")
    return f" ({reasons[-1]})" if reasons else ""


def _wait(account: Account, name: str, waiter: str) -> None:
    try:
        account.client("cloudformation").get_waiter(waiter).wait(StackName=name, WaiterConfig=_WAITS)
    except WaiterError:
        found = find_stack(account, name)
        status = found.status if found else "deleted"
        raise ClusterError(
            f"stack {name} failed: {status}{failure(account, name) if found else ''}"
        ) from None


def _settle(account: Account, stack: Stack) -> None:
    """Wait for what another process began. Its failure is seen from the status afterwards."""
    action = {"C": "create", "U": "update", "D": "delete", "R": "rollback"}[stack.status[0]]
    with aws_errors(), contextlib.suppress(WaiterError):
        waiter = account.client("cloudformation").get_waiter(f"stack_{action}_complete")
        waiter.wait(StackName=stack.name, WaiterConfig=_WAITS)


def _update(cloud: Any, request: dict[str, Any]) -> bool:
    try:
        cloud.update_stack(**request)
    except ClientError as error:
        if "No updates are to be performed" in error.response["Error"]["Message"]:
            return False
        raise
    return True


def _parameters(account: Account, spec: StackSpec) -> dict[str, str]:
    kinds = {name: _instance_type(account, name) for name in {spec.master_type, spec.worker_type}}
    offered_mb = int(kinds[spec.worker_type]["MemoryInfo"]["SizeInMiB"])
    needed_mb = spec.worker_memory_gb * 1024 + _SPARE_MB
    if offered_mb < needed_mb:
        raise BadInputError(
            f"--worker-type is {spec.worker_type}, which has {offered_mb} MB of memory, but the suite's "
            f"applications need {needed_mb} MB on each worker: name a larger one"
        )
    return {
        "Bucket": spec.bucket,
        **_wheel(account, spec),
        "MasterType": spec.master_type,
        "WorkerType": spec.worker_type,
        "MasterImage": _image(kinds[spec.master_type]),
        "WorkerImage": _image(kinds[spec.worker_type]),
        "Workers": str(spec.workers),
        "WorkerSlots": str(spec.worker_slots),
        "WorkerMemory": f"{spec.worker_memory_gb}g",
        "Market": "spot" if spec.spot else "on-demand",
        "BudgetDollars": f"{spec.budget_dollars:g}",
        "BudgetEmail": spec.budget_email,
        "PriceMaster": f"{spec.prices.master:g}",
        "PriceWorker": f"{spec.prices.worker:g}",
        "PriceNat": f"{spec.prices.nat:g}",
    }


def _instance_type(account: Account, name: str) -> dict[str, Any]:
    with aws_errors():
        try:
            found = account.client("ec2").describe_instance_types(InstanceTypes=[name])["InstanceTypes"]
        except ClientError as error:
            if error.response["Error"]["Code"] != "InvalidInstanceType":
                raise
            found = []
    if not found:
        raise BadInputError(
            f"the instance type is {name!r}, which {account.region} does not have: "
            "name one such as m6i.xlarge"
        )
    return dict(found[0])


def _image(kind: Mapping[str, Any]) -> str:
    return _IMAGE.format("arm64" if "arm64" in kind["ProcessorInfo"]["SupportedArchitectures"] else "x86_64")


def _wheel(account: Account, spec: StackSpec) -> dict[str, str]:
    """Upload the wheel; returns the parameters about it, which change with the content and replace the nodes.

    A package index is not asked for it: whoever registers the name there would run their code on the nodes.
    """
    try:
        content = read_bytes(spec.wheel)
    except BadInputError as error:
        raise BadInputError(f"--wheel: {error}") from None
    if spec.wheel.suffix != ".whl" or not content.startswith(b"PK"):
        raise BadInputError(
            f"--wheel is {str(spec.wheel)!r}, which is not a wheel: make one with `python -m build`"
        )
    digest = hashlib.sha256(content).hexdigest()
    key = f"{PREFIX}/{spec.name}/wheels/{digest[:12]}/{spec.wheel.name}"
    upload(account, spec.bucket, key, content)
    return {"WheelKey": key, "WheelSha256": digest}
