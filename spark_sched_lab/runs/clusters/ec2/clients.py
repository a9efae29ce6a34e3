"""Clients of one AWS account and region, and AWS's errors as this project's sentences."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import boto3
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    WaiterError,
)

from spark_sched.errors import BadInputError
from spark_sched_lab.runs.clusters.local import ClusterError

# What AWS answers to credentials that are wrong or have expired.
_REFUSED = frozenset(
    {
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "UnrecognizedClientException",
    }
)


class Account:
    """The user's account in one region.

    Raises BadInputError if there is no region, no such region, or no credentials.
    """

    def __init__(self, region: str | None = None) -> None:
        with aws_errors():
            self._session = boto3.Session(region_name=region)
            known = self._session.get_available_regions("ec2")
            credentials = self._session.get_credentials()
        self.region: str = self._session.region_name or ""
        if not self.region:
            raise BadInputError("the region is missing: give --region or set AWS_DEFAULT_REGION")
        if self.region not in known:
            raise BadInputError(f"the region is {self.region!r} but must be one of {', '.join(known)}")
        if credentials is None:
            raise BadInputError(_NO_CREDENTIALS)

    def client(self, service: str) -> Any:
        return self._session.client(service)


_NO_CREDENTIALS = (
    "AWS credentials are missing: run `aws configure sso`, or set AWS_PROFILE or AWS_ACCESS_KEY_ID"
)


@contextlib.contextmanager
def aws_errors() -> Iterator[None]:
    """Raises BadInputError for the user's settings, ClusterError for what AWS refuses."""
    try:
        yield
    except (NoCredentialsError, PartialCredentialsError):
        raise BadInputError(_NO_CREDENTIALS) from None
    except ProfileNotFound as error:
        raise BadInputError(f"{error}: set AWS_PROFILE to one of `aws configure list-profiles`") from None
    except ClientError as error:
        code, message = error.response["Error"]["Code"], error.response["Error"]["Message"]
        if code in _REFUSED:
            raise BadInputError(f"AWS does not accept the credentials ({message}): renew them") from None
        raise ClusterError(f"AWS refused {error.operation_name}: {message} ({code})") from None
    except WaiterError as error:
        raise ClusterError(f"waiting for AWS failed: {error}") from None
    except BotoCoreError as error:
        raise ClusterError(f"AWS cannot be reached: {error}") from None
