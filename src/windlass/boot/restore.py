"""`windlass restore FILE`: a backup becomes a data directory again, in which nothing old has authority.

The time since the backup is unknown to it, but it happened. So the epoch is raised above any that may have been reached since;
every run that was alive is noted as started, so that it is found again or reported lost and never begun a second time; and the
signing key is left behind: tokens that were revoked since would hold again.
"""

import os
import re
import shutil
import tarfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from windlass.boot.backup import HISTORY, MANIFEST, SMALL, STORE, VERSION, Manifest

if TYPE_CHECKING:
    from windlass.boot.installation import Installation

_KNOWN: Final = re.compile(r"keys/data-key-\d+|keys/signing-key\.json|blobs/sha256/[0-9a-f]{2}/[0-9a-f]{64}", re.ASCII)
_SIGNING_KEY: Final = "keys/signing-key.json"
_EPOCHS: Final = 1_000_000
"""More starts than a server has had since a backup; the seconds since come on top, for a backup that is restored twice."""
_CHUNK: Final = 1 << 20
_MANIFEST_MAX: Final = 1 << 16


@click.command("restore")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--data-dir", type=click.Path(path_type=Path), help="Where to; nothing may be there yet.")
@click.option("--keep-tokens", is_flag=True, help="Tokens of then hold again, also those that were revoked since.")
def command(file: Path, keep_tokens: bool, **flags: Any) -> None:
    """Make a data directory of a backup. Then `windlass up` on it, when the server it was taken from is down for good.

    What was alive is found again or reported lost, never begun twice. Tokens are to be issued anew, unless --keep-tokens.
    """
    import anyio

    from windlass.boot import logging
    from windlass.boot.installation import Installation
    from windlass.boot.settings import load

    logging.configure("warning")
    settings = load(os.environ, {name: value for name, value in flags.items() if value is not None})
    installation = Installation(settings.data_dir)
    with installation.locked():
        _check_empty(installation)
        try:
            made = _unpack(file, installation, keep_tokens=keep_tokens)
            epoch, alive = anyio.run(_take_authority, installation, made)
        except BaseException:
            _leave_nothing(installation)
            raise
    click.echo(
        f"{settings.data_dir}: epoch {epoch}, {alive} run{'s' * (alive != 1)} to be found again or reported lost"
    )


def _check_empty(installation: "Installation") -> None:
    from windlass.core.errors import Conflict

    there = sorted(path.name for path in installation.root.iterdir() if path.name != "lock")
    if there:
        raise Conflict(
            f"{installation.root} is not empty: {', '.join(there[:3])}{', …' if len(there) > 3 else ''}",
            code="data-dir-not-empty",
            hint="give another --data-dir, or move away what is there",
        )


def _unpack(file: Path, installation: "Installation", *, keep_tokens: bool) -> Manifest:
    """By name, and only names that a backup has: an archive is foreign until it is read."""
    try:
        with tarfile.open(file, mode="r:") as archive:
            made, names = _manifest(archive), set[str]()
            for entry in archive:
                if entry.name == MANIFEST or (entry.name == _SIGNING_KEY and not keep_tokens):
                    continue
                _check_entry(entry, names)
                _extract(archive, entry, installation.root / entry.name)
                names.add(entry.name)
    except (tarfile.TarError, EOFError) as error:
        raise _damaged(str(error)) from error
    if missing := {STORE, "installation.json"} - names:
        raise _damaged(f"it has no {', '.join(sorted(missing))}")
    return made


def _manifest(archive: tarfile.TarFile) -> Manifest:
    from msgspec import DecodeError, json

    from windlass.core.errors import Invalid

    first = archive.next()
    content = archive.extractfile(first) if first is not None and first.name == MANIFEST and first.isreg() else None
    if content is None:
        raise _damaged("it does not begin as one")
    try:
        made = json.decode(content.read(_MANIFEST_MAX), type=Manifest)
    except DecodeError as error:
        raise _damaged(str(error)) from error
    if made.version > VERSION:
        raise Invalid(
            "a newer version made this backup", code="backup-newer", hint="restore it with the version that made it"
        )
    return made


def _check_entry(entry: tarfile.TarInfo, seen: set[str]) -> None:
    is_known = entry.name in {HISTORY, STORE, *SMALL} or _KNOWN.fullmatch(entry.name) is not None
    if not is_known or not entry.isreg() or entry.name in seen:
        raise _damaged(f"{entry.name!r} does not belong in one")


def _extract(archive: tarfile.TarFile, entry: tarfile.TarInfo, target: Path) -> None:
    content = archive.extractfile(entry)
    assert content is not None
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as out:
        shutil.copyfileobj(content, out, _CHUNK)
        if out.tell() != entry.size:
            raise _damaged(f"{entry.name} is cut off")
        out.flush()
        os.fsync(out.fileno())


async def _take_authority(installation: "Installation", made: Manifest) -> tuple[int, int]:
    """The new epoch, and how many runs were alive. The node's journal is written as if it had begun them all."""
    from windlass.adapters.store.sqlite import SqliteStore
    from windlass.agent.journal import Journal
    from windlass.control.brain import rebuild
    from windlass.control.leadership import known_epoch, take_epoch
    from windlass.core.model.ids import Millis
    from windlass.core.world.policy import Policy

    since = max(0, int(time.time()) - made.made_at)
    async with SqliteStore.open(installation.store) as store:
        epoch, _ = await take_epoch(store, epoch_seen=await known_epoch(store) + _EPOCHS + since)
        world, _, _ = await rebuild(store, epoch=epoch, policy=Policy())
    installation.node.mkdir(mode=0o700, exist_ok=True)
    journal = Journal(installation.node / "journal")
    try:
        await journal.note_epoch(epoch)
        alive = [run for run in world.tables.runs.values() if not run.is_over]
        for run in alive:
            await journal.note_starting(run.id, now=Millis(run.assigned_at))
    finally:
        journal.close()
    return epoch, len(alive)


def _leave_nothing(installation: "Installation") -> None:
    """The directory was empty when we began."""
    for path in installation.root.iterdir():
        if path.name == "lock":
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _damaged(why: str) -> Exception:
    from windlass.core.errors import Invalid

    return Invalid(f"this is no whole backup: {why}", code="backup-damaged", hint="take another; nothing was restored")
