"""The data directory: one server at a time, ids for ever, secrets for their owner only."""

import stat
from pathlib import Path

import pytest

from windlass.boot.installation import Installation
from windlass.core.errors import Conflict


def test_ids_are_made_once(tmp_path: Path) -> None:
    first = Installation(tmp_path / "data").identity("one")
    assert Installation(tmp_path / "data").identity("two") == first
    assert first.installation == "one"


def test_a_second_server_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    installation = Installation(tmp_path / "data")
    assert installation.server_pid() is None
    with installation.locked():
        assert installation.server_pid() is not None
        with pytest.raises(Conflict) as refusal, Installation(tmp_path / "data").locked():
            raise AssertionError("two hold one lock")
        assert str(installation.server_pid()) in refusal.value.message
    assert installation.server_pid() is None


def test_what_is_secret_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    installation = Installation(tmp_path / "data")
    installation.identity("one")
    installation.write_context("http://127.0.0.1:1", "secret")
    for path in (installation.token, installation.context):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(installation.root.stat().st_mode) == 0o700
