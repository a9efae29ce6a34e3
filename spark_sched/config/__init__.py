"""Every setting, declared once: name, unit, check, default, doc and the version that introduced it."""

from spark_sched.config.keys import ALL, BY_NAME, JOB_PREFIX, POLICY_PREFIX, PREFIX, ConfigKey
from spark_sched.config.masters import SCHEME, check_inner_master, wrap_master
from spark_sched.config.properties import format_properties, parse_properties, read_properties
from spark_sched.config.settings import Settings, parse, validate

__all__ = [
    "ALL",
    "BY_NAME",
    "JOB_PREFIX",
    "POLICY_PREFIX",
    "PREFIX",
    "SCHEME",
    "ConfigKey",
    "Settings",
    "check_inner_master",
    "format_properties",
    "parse",
    "parse_properties",
    "read_properties",
    "validate",
    "wrap_master",
]
