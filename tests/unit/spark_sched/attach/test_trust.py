"""Which compiled bridges may be loaded."""

from __future__ import annotations

import contextlib
import os
import stat

import pytest

from spark_sched.attach import cache
from spark_sched.attach.trust import is_trusted, private_directory, seal
from spark_sched.errors import BadInputError


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def give_away(path, monkeypatch):
    """From now on the file is neither this process's user's nor root's."""
    if os.geteuid() == 0:
        os.chown(path, 65_534, -1)
    else:
        another = os.geteuid() + 1
        monkeypatch.setattr("os.geteuid", lambda: another)


@pytest.fixture
def jar(tmp_path):
    path = tmp_path / "bridge.jar"
    path.write_bytes(b"classes")
    seal(path)
    return path


def test_a_sealed_jar_is_trusted_and_private(jar):
    assert is_trusted(jar)
    assert {mode(path) for path in jar.parent.iterdir()} == {0o600}


def test_a_jar_that_changed_is_not_trusted(jar):
    jar.write_bytes(b"other classes")
    assert not is_trusted(jar)


def test_a_jar_of_another_user_is_not_trusted(jar, monkeypatch):
    give_away(jar, monkeypatch)
    assert not is_trusted(jar)


@pytest.mark.parametrize("which", ["bridge.jar", "bridge.jar.sha256"])
def test_a_jar_that_others_can_write_is_not_trusted(jar, which):
    (jar.parent / which).chmod(0o620)
    assert not is_trusted(jar)


def test_a_link_or_a_missing_file_is_not_trusted(jar):
    real = jar.rename(jar.with_name("real.jar"))
    assert not is_trusted(jar)
    jar.symlink_to(real)
    assert not is_trusted(jar)
    assert not is_trusted(real)  # never sealed by that name


def test_a_new_folder_is_private(tmp_path):
    path = tmp_path / "a" / "cache"
    private_directory(path, "go", ours=False)
    assert mode(path) == 0o700


def test_a_folder_that_others_can_write_is_refused_or_closed(tmp_path):
    tmp_path.chmod(0o775)
    with pytest.raises(BadInputError, match="can be written by others: chmod go-w it, or go elsewhere"):
        private_directory(tmp_path, "go elsewhere", ours=False)
    assert mode(tmp_path) == 0o775
    private_directory(tmp_path, "go elsewhere", ours=True)
    assert mode(tmp_path) == 0o700


def test_a_folder_of_another_user_is_refused(tmp_path, monkeypatch):
    give_away(tmp_path, monkeypatch)
    with pytest.raises(BadInputError, match="belongs to another user: go elsewhere"):
        private_directory(tmp_path, "go elsewhere", ours=True)


def test_a_cached_jar_that_is_not_trusted_is_compiled_anew(tmp_path, monkeypatch):
    compiled = []

    def compile_bridge(planned, jar):
        compiled.append(jar)
        jar.write_bytes(b"classes")

    class Planned:
        jar_name = "bridge.jar"
        line_jar_name = "bridge-of-the-line.jar"
        is_tried_release = True

    monkeypatch.setenv("SPARK_SCHED_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "plan_build", lambda *_: Planned)
    monkeypatch.setattr(cache, "compile_bridge", compile_bridge)
    monkeypatch.setattr(cache, "_progress", lambda _: contextlib.nullcontext())
    jar = cache.build()
    assert cache.build() == jar
    assert len(compiled) == 1
    jar.write_bytes(b"evil classes")
    assert cache.build().read_bytes() == b"classes"
    assert len(compiled) == 2
