"""Inner masters: the clusters that ``spark-sched:<inner>`` can wrap."""

from __future__ import annotations

import re
from typing import Literal

from spark_sched.errors import BadInputError, nearest

SCHEME = "spark-sched:"

MasterKind = Literal["local", "local-cluster", "spark", "yarn", "k8s"]

# Nine digits are enough for anybody and fit the JVM's int.
_COUNT = r"(?:\*|0*[1-9]\d{0,8})"
_POSITIVE = r"\s*0*[1-9]\d{0,8}\s*"
# 0 is valid: no task may fail, or the workers have not registered yet.
_ANY = r"\s*0*\d{1,9}\s*"
_HOST_PORT = r"[^:/,\s\[\]]+:\d{1,5}|\[[0-9a-fA-F:.]+\]:\d{1,5}"
_FORMS: dict[MasterKind, re.Pattern[str]] = {
    "local": re.compile(rf"local(?:\[{_COUNT}(?:\s*,{_ANY})?\])?", re.ASCII),
    "local-cluster": re.compile(rf"local-cluster\[{_ANY},{_POSITIVE},{_POSITIVE}\]", re.ASCII),
    "spark": re.compile(rf"spark://(?:{_HOST_PORT})(?:,(?:{_HOST_PORT}))*", re.ASCII),
    "yarn": re.compile("yarn"),
    "k8s": re.compile(r"k8s://\S+"),
}
# How each form is written, by its first word.
_WRITTEN = {
    "local": "local, local[N], local[*], local[N,F] or local[*,F]",
    "local-cluster": "local-cluster[executors,cores,memory_mb]",
    "spark": "spark://host:port[,host:port]",
    "yarn": "yarn",
    "k8s": "k8s://https://host:port",
}
_HEAD = re.compile(r"[^\[:/\s]*")
_OUT_OF_RANGE = re.compile(r"(?<!\d)(?:0+|0*[1-9]\d{9,})(?!\d)", re.ASCII)


def check_inner_master(master: str) -> tuple[str, MasterKind]:
    """The inner master without our scheme, and its kind.

    Accepts ``spark-sched:local[4]`` as well as ``local[4]``: both are what people paste. Raises
    BadInputError naming the value and how that form is written.
    """
    inner = master.strip().removeprefix(SCHEME)
    for kind, form in _FORMS.items():
        if form.fullmatch(inner):
            return inner, kind
    head = _HEAD.match(inner)
    word = head[0] if head else ""
    if word in _WRITTEN:
        numbers = ", with numbers from 1 to 999999999" if _OUT_OF_RANGE.search(inner) else ""
        raise BadInputError(f"master is {master!r} but must be written as {_WRITTEN[word]}{numbers}")
    near = nearest(word, _WRITTEN)
    hint = f" (did you mean {near + inner[len(word) :]!r}?)" if near else ""
    forms = ", ".join(_WRITTEN.values())
    raise BadInputError(f"master is {master!r}{hint}: give the cluster to run on as one of {forms}")


def wrap_master(master: str) -> str:
    """``spark.master`` of an application that runs on ``master`` under this scheduler."""
    return SCHEME + check_inner_master(master)[0]
