"""Inner masters: the forms Spark knows, and the sentence for all others."""

from __future__ import annotations

import pytest

from spark_sched.config import check_inner_master, wrap_master
from spark_sched.errors import BadInputError


@pytest.mark.parametrize(
    ("master", "kind"),
    [
        ("local", "local"),
        ("local[2]", "local"),
        ("local[*]", "local"),
        ("local[2,3]", "local"),
        ("local[*, 3]", "local"),
        ("local[2,0]", "local"),
        ("local[2 , 3]", "local"),
        ("local-cluster[2,1,1024]", "local-cluster"),
        ("local-cluster[0,1,1024]", "local-cluster"),
        ("local-cluster[ 2 , 1 , 1024 ]", "local-cluster"),
        ("spark://host:7077", "spark"),
        ("spark://a:7077,b:7077", "spark"),
        ("spark://[::1]:7077", "spark"),
        ("yarn", "yarn"),
        ("k8s://https://host:443", "k8s"),
    ],
)
def test_known_forms_are_wrapped_unchanged(master, kind):
    assert check_inner_master(master) == (master, kind)
    assert wrap_master(master) == f"spark-sched:{master}"


def test_a_master_that_is_wrapped_already_is_wrapped_once():
    assert wrap_master("spark-sched:local[4]") == "spark-sched:local[4]"


@pytest.mark.parametrize(
    ("master", "sentence"),
    [
        pytest.param("locl[4]", "(did you mean 'local[4]'?)", id="a slip keeps its numbers"),
        pytest.param("localcluster[1,1,1]", "(did you mean 'local-cluster[1,1,1]'?)", id="a lost hyphen"),
        pytest.param("Local[2]", "(did you mean 'local[2]'?)", id="a capital"),
        pytest.param("yran", "(did you mean 'yarn'?)", id="swapped letters"),
        pytest.param("local[]", "must be written as local, local[N]", id="empty brackets"),
        pytest.param("local[two]", "must be written as local, local[N]", id="a number in words"),
        pytest.param("local[0]", "with numbers from 1 to", id="no slot"),
        pytest.param("local-cluster[2,1]", "local-cluster[executors,cores,memory_mb]", id="memory left out"),
        pytest.param("local-cluster[2,0,1024]", "with numbers from 1 to", id="executors without cores"),
        pytest.param("local[9999999999]", "with numbers from 1 to", id="more than the JVM can count"),
        pytest.param("spark://host", "spark://host:port", id="a port left out"),
        pytest.param("spark://a:1,spark://b:1", "spark://host:port", id="the scheme said twice"),
        pytest.param("mesos://host:5050", "give the cluster to run on as one of", id="a manager of old"),
        pytest.param("", "give the cluster to run on as one of", id="nothing"),
        pytest.param("local[2]\nx", "must be written as", id="a second line"),
    ],
)
def test_other_forms_are_one_sentence(master, sentence):
    with pytest.raises(BadInputError) as refused:
        wrap_master(master)
    assert f"master is {master!r}" in str(refused.value)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)
