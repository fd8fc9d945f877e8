"""One suite over every sealer: what is sealed opens for what it was sealed about, and for nothing else."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from windlass.adapters.secrets.directory import KeyFiles
from windlass.core.errors import Invalid
from windlass.core.model.secret import Sealed
from windlass.ports.secrets import Sealer, Unsealable
from windlass.testing.secrets import MemorySealer

Open = Callable[[], Sealer]
"""The sealer, as it is after a restart."""


@pytest.fixture(params=["files", "memory"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    if request.param == "files":
        return lambda: KeyFiles(tmp_path / "keys")
    kept = MemorySealer()
    return lambda: kept


@pytest.mark.parametrize("value", [b"", b"\0", b"a secret", os.urandom(300_000)], ids=["empty", "NUL", "text", "large"])
def test_what_is_sealed_opens_also_after_a_restart(reopen: Open, value: bytes) -> None:
    sealed = reopen().seal(value, about=b"acme/hub/1")
    assert reopen().open(sealed, about=b"acme/hub/1") == value


def test_a_box_opens_for_nothing_else(reopen: Open) -> None:
    sealer = reopen()
    sealed = sealer.seal(b"a secret", about=b"acme/hub/1")
    for elsewhere in (b"other/hub/1", b"acme/other/1", b"acme/hub/2", b""):
        with pytest.raises(Unsealable):
            sealer.open(sealed, about=elsewhere)
    for box in (b"", sealed.box[:-1], sealed.box + b"x", bytes(len(sealed.box)), sealed.box[::-1]):
        with pytest.raises(Unsealable) as refused:
            sealer.open(Sealed(key=sealed.key, box=box), about=b"acme/hub/1")
        assert "a secret" not in str(refused.value)


def test_a_rotation_opens_the_old_and_seals_with_the_new_until_the_old_is_forgotten(reopen: Open) -> None:
    sealer = reopen()
    old = sealer.seal(b"old", about=b"x")
    assert sealer.rotate() == sealer.newest == old.key + 1
    new = sealer.seal(b"new", about=b"x")
    assert (new.key, sealer.oldest) == (sealer.newest, old.key)
    assert [reopen().open(one, about=b"x") for one in (old, new)] == [b"old", b"new"]
    sealer.forget_before(new.key)
    for after in (sealer, reopen()):
        assert (after.oldest, after.newest) == (new.key, new.key)
        assert after.open(new, about=b"x") == b"new"
        with pytest.raises(Unsealable):
            after.open(old, about=b"x")
    with pytest.raises(Unsealable):
        sealer.open(Sealed(key=new.key, box=old.box), about=b"x")


def test_one_value_is_never_sealed_the_same_way_twice(tmp_path: Path) -> None:
    sealer = KeyFiles(tmp_path)
    boxes = {sealer.seal(b"a secret", about=b"x").box for _ in range(1000)}
    assert len(boxes) == 1000
    assert not [box for box in boxes if b"secret" in box]


def test_keys_are_made_once_and_are_their_owners_alone(tmp_path: Path) -> None:
    first = KeyFiles(tmp_path)
    assert KeyFiles(tmp_path).open(first.seal(b"v", about=b"x"), about=b"x") == b"v"
    assert [path.stat().st_mode & 0o777 for path in tmp_path.iterdir()] == [0o600]
    (tmp_path / "data-key-1").chmod(0o644)
    with pytest.raises(Invalid) as refused:
        KeyFiles(tmp_path)
    assert refused.value.code == "key-mode"
    (tmp_path / "data-key-1").chmod(0o600)
    (tmp_path / "data-key-1").write_bytes(b"short")
    with pytest.raises(Invalid) as refused:
        KeyFiles(tmp_path)
    assert refused.value.code == "key-damaged"
