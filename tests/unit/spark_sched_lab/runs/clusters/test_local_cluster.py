import socket

import pytest

from spark_sched.errors import BadInputError
from spark_sched_lab.runs.clusters import ClusterError, LocalCluster
from spark_sched_lab.runs.clusters.local import loopback_hosts


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        pytest.param({"workers": 0}, "workers is 0", id="no worker"),
        pytest.param({"cores_per_worker": 0}, "cores_per_worker is 0", id="a worker without slots"),
        pytest.param({"memory": "2 GB"}, "memory is '2 GB'", id="memory in another notation"),
        pytest.param({"memory": "100m"}, "memory is '100m'", id="memory below what an executor needs"),
    ],
)
def test_a_wrong_size_is_refused_by_name_before_anything_starts(arguments, named):
    with pytest.raises(BadInputError, match=named):
        LocalCluster(**arguments)


def test_slots_are_those_of_all_workers():
    assert LocalCluster(workers=3, cores_per_worker=5).slots == 15


def test_a_cluster_that_is_not_running_has_no_master():
    with pytest.raises(ClusterError, match="not running"):
        LocalCluster().spark_conf()


def test_stopping_a_cluster_that_never_started_is_harmless():
    LocalCluster().stop()


def test_workers_get_addresses_of_their_own_where_the_system_has_them(monkeypatch):
    monkeypatch.setattr(socket.socket, "bind", lambda self, address: None)
    assert loopback_hosts(3) == (["127.0.0.2", "127.0.0.3", "127.0.0.4"], "")


def test_workers_share_one_address_where_it_is_the_only_one_and_the_note_says_so(monkeypatch):
    def only_the_first(self, address):
        if address[0] != "127.0.0.1":
            raise OSError("cannot assign requested address")

    monkeypatch.setattr(socket.socket, "bind", only_the_first)
    hosts, note = loopback_hosts(2)
    assert hosts == ["127.0.0.1", "127.0.0.1"]
    assert "127.0.0.2 cannot be bound" in note
