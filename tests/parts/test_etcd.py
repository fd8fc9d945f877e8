"""The etcd part keeps what is written, also over a crash."""

from collections.abc import Iterator

import pytest

from tests.parts.etcd import Etcd


@pytest.fixture(scope="module")
def etcd() -> Iterator[Etcd]:
    with Etcd() as server:
        yield server


def test_what_is_put_is_got(etcd: Etcd) -> None:
    revision = etcd.put("a/one", "value")
    assert etcd.get("a/one") == "value"
    assert etcd.put("a/two", "") == revision + 1
    assert etcd.get("a/two") == ""
    assert etcd.get("a/three") is None


def test_keys_are_listed_by_prefix(etcd: Etcd) -> None:
    for key in ("b/1", "b/2", "c/1"):
        etcd.put(key, "x")
    assert etcd.keys("b/") == ["b/1", "b/2"]
    assert {"b/1", "b/2", "c/1"} <= set(etcd.keys())


def test_a_killed_server_comes_back_with_its_data() -> None:
    with Etcd(fsync=True) as etcd:
        etcd.put("kept", "yes")
        etcd.kill()
        etcd.start()
        assert etcd.get("kept") == "yes"
