"""`windlass backup FILE`: a copy of the local home that is consistent, taken while the server runs or when it does not.

The databases are copied by SQLite's own backup from one snapshot each, the history before the store: so the history is never
ahead of the store it is filled from. `restore` is the way back.
"""

import io
import os
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec import Struct

if TYPE_CHECKING:
    from windlass.boot.installation import Installation

VERSION: Final = 1
MANIFEST: Final = "backup.json"
HISTORY, STORE = "history.db", "store.db"
SMALL: Final = ("installation.json", "clock.json", "engines.json", "windlass.toml")
_PAGES_AT_ONCE: Final = 1024
_BUSY_MS: Final = 10_000


class Manifest(Struct, frozen=True, kw_only=True):
    """First in the file: what the rest is."""

    version: int
    installation: str
    made_at: int
    """Wall time in seconds."""
    has_blobs: bool


@click.command("backup")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--data-dir", type=click.Path(path_type=Path), help="The data directory, if it is not the usual one.")
@click.option("--blobs", "with_blobs", is_flag=True, help="Uploads and fetched files as well; they may be large.")
def command(file: Path, with_blobs: bool, **flags: Any) -> None:
    """Save the local home to FILE, also while its server runs: store, history, keys, settings. FILE is for your user only.

    \b
      windlass backup /mnt/backups/windlass-monday.tar
      windlass restore /mnt/backups/windlass-monday.tar --data-dir /srv/windlass

    It holds the keys: whoever can read it can be anybody here. Volumes and logs are not in it.
    """
    from windlass.boot.installation import Installation
    from windlass.boot.settings import load
    from windlass.core.errors import Conflict, NotFound

    settings = load(os.environ, {name: value for name, value in flags.items() if value is not None})
    installation = Installation(settings.data_dir)
    if not installation.exists:
        raise NotFound(f"there is no installation in {settings.data_dir}", code="installation-absent")
    if file.exists():
        raise Conflict(f"{file} is there already", code="backup-exists", hint="choose another name, or remove it first")
    size = _write(installation, file, with_blobs=with_blobs)
    click.echo(f"{file}: {_mib(size)}")


def _write(installation: "Installation", file: Path, *, with_blobs: bool) -> int:
    """Whole or not at all: under another name until all of it is on disk."""
    fresh = file.with_name(f".{file.name}.new")
    fd = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as out:
            with tarfile.open(fileobj=out, mode="w") as archive:
                _fill(archive, installation, with_blobs=with_blobs)
            out.flush()
            os.fsync(out.fileno())
        os.link(fresh, file)  # refuses what has come meanwhile
        return file.stat().st_size
    finally:
        fresh.unlink()


def _fill(archive: tarfile.TarFile, installation: "Installation", *, with_blobs: bool) -> None:
    from msgspec import json

    root, identity = installation.root, installation.identity("")
    made = Manifest(version=VERSION, installation=identity.installation, made_at=int(time.time()), has_blobs=with_blobs)
    _add_bytes(archive, MANIFEST, json.encode(made))
    with tempfile.TemporaryDirectory(dir=root, prefix=".backup-") as scratch:
        for name in (HISTORY, STORE):
            copy = Path(scratch) / name
            if (root / name).exists():
                _copy_database(root / name, copy)
                _add_file(archive, name, copy)
                _say(f"{name}: {_mib(copy.stat().st_size)}")
    for name in SMALL:
        if (root / name).exists():
            _add_bytes(archive, name, (root / name).read_bytes())
    for key in sorted(installation.keys.iterdir()):
        if key.is_file() and not key.name.startswith("."):
            _add_bytes(archive, f"keys/{key.name}", key.read_bytes())
    if with_blobs:
        _add_blobs(archive, installation.blobs)


def _copy_database(source: Path, target: Path) -> None:
    import apsw

    from windlass.core.errors import Unavailable

    try:
        ours, copy = apsw.Connection(os.fspath(source), flags=apsw.SQLITE_OPEN_READWRITE), apsw.Connection(str(target))
        ours.set_busy_timeout(_BUSY_MS)
        try:
            with ours:  # one snapshot: else every commit of the server would begin the copy anew
                ours.execute("SELECT count(*) FROM sqlite_master").fetchall()
                with copy.backup("main", ours, "main") as backup:
                    while not backup.done:
                        backup.step(_PAGES_AT_ONCE)
            copy.pragma("journal_mode", "delete")
        finally:
            ours.close()
            copy.close()
    except apsw.Error as error:
        raise Unavailable(
            f"{source.name} cannot be copied: {error}", code="backup-failed", hint="see that the disk has room"
        ) from error


def _add_blobs(archive: tarfile.TarFile, blobs: Path) -> None:
    """Those that are whole; one that goes while we copy was needed by nobody."""
    count = size = 0
    for path in _blobs(blobs):
        try:
            _add_file(archive, f"blobs/{path.relative_to(blobs)}", path)
        except FileNotFoundError:
            continue
        count, size = count + 1, size + path.stat().st_size
    _say(f"blobs: {count}, {_mib(size)}")


def _blobs(blobs: Path) -> Iterator[Path]:
    return (path for path in sorted((blobs / "sha256").rglob("*")) if path.is_file())


def _add_file(archive: tarfile.TarFile, name: str, path: Path) -> None:
    with path.open("rb") as content:
        archive.addfile(_entry(name, os.fstat(content.fileno()).st_size), content)


def _add_bytes(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    archive.addfile(_entry(name, len(content)), io.BytesIO(content))


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = size, 0o600, int(time.time())
    return entry


def _say(text: str) -> None:
    click.echo(text, err=True)


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"
