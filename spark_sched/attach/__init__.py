"""The JVM side of the scheduler: compiled once, cached, and attached by properties."""

from spark_sched.attach.cache import build, cache_dir
from spark_sched.attach.compiler import BridgeError
from spark_sched.attach.properties import conf
from spark_sched.attach.spark import SparkInstall, find_java, find_spark

__all__ = ["BridgeError", "SparkInstall", "build", "cache_dir", "conf", "find_java", "find_spark"]
