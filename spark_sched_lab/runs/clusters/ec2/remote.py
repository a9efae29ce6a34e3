"""Commands on a cluster's master through SSM, and files through the user's bucket."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError, WaiterError

from spark_sched.files import write_whole
from spark_sched_lab.runs.clusters.ec2.clients import Account, aws_errors
from spark_sched_lab.runs.clusters.local import ClusterError

#: All keys in the user's bucket begin with it.
PREFIX = "spark-sched"
# The agent of a new instance registers within a minute or two.
_AGENT_LIMIT_S = 300.0
_POLL_S = 5


def upload(account: Account, bucket: str, key: str, content: bytes) -> None:
    """Put an object. Raises ClusterError."""
    with aws_errors():
        account.client("s3").put_object(Bucket=bucket, Key=key, Body=content)


def fetch(account: Account, bucket: str, prefix: str, names: tuple[str, ...], directory: Path) -> list[str]:
    """Copy the objects ``prefix/NAME`` that exist into a folder; returns their names. Raises ClusterError."""
    found = []
    client = account.client("s3")
    for name in names:
        with aws_errors():
            try:
                content = client.get_object(Bucket=bucket, Key=f"{prefix}/{name}")["Body"].read()
            except client.exceptions.NoSuchKey:
                continue
        write_whole(directory / name, content.decode())
        found.append(name)
    return found


def run_script(account: Account, instance: str, script: str, comment: str, limit_s: int) -> None:
    """Run a bash script on an instance and wait for its end; an interruption cancels it.

    Raises ClusterError with the end of its standard error if it fails.
    """
    client = account.client("ssm")
    command = _send(client, instance, script, comment, limit_s)
    try:
        with aws_errors():
            _await(client, command, instance, limit_s)
    except KeyboardInterrupt:
        with aws_errors():
            client.cancel_command(CommandId=command)
        raise


def _send(client: Any, instance: str, script: str, comment: str, limit_s: int) -> str:
    began_s = time.monotonic()
    while True:
        with aws_errors():
            try:
                sent = client.send_command(
                    InstanceIds=[instance],
                    DocumentName="AWS-RunShellScript",
                    Comment=comment[:100],
                    Parameters={"commands": [script], "executionTimeout": [str(limit_s)]},
                )
                return str(sent["Command"]["CommandId"])
            except client.exceptions.InvalidInstanceId:
                if time.monotonic() - began_s > _AGENT_LIMIT_S:
                    raise ClusterError(
                        f"the SSM agent of {instance} did not register within {_AGENT_LIMIT_S:g} s"
                    ) from None
        time.sleep(_POLL_S)


def _await(client: Any, command: str, instance: str, limit_s: int) -> None:
    which = {"CommandId": command, "InstanceId": instance}
    began_s = time.monotonic()
    while True:
        try:
            client.get_command_invocation(**which)
            break
        except ClientError as error:
            # A command that was just sent is not known everywhere at once.
            unknown = error.response["Error"]["Code"] == "InvocationDoesNotExist"
            if not unknown or time.monotonic() - began_s > _AGENT_LIMIT_S:
                raise
        time.sleep(_POLL_S)
    try:
        client.get_waiter("command_executed").wait(
            **which, WaiterConfig={"Delay": _POLL_S, "MaxAttempts": limit_s // _POLL_S + 60}
        )
    except WaiterError:
        done = client.get_command_invocation(**which)
        reason = done.get("StandardErrorContent", "").strip() or done.get("StatusDetails", "")
        raise ClusterError(f"the command on {instance} ended as {done['Status']}:\n{reason}") from None
