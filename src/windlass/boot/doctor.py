"""`windlass doctor`: is this machine fit, and if not, what to do about it."""

import os
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

_MIN_FREE = 1 << 30
_ANSWER_SECONDS = 5.0
"""For a server that is busy, and does answer."""


class Finding(Struct, frozen=True, kw_only=True):
    what: str
    is_well: bool
    said: str
    advice: str = ""
    is_fatal: bool = True


@click.command("doctor")
@click.option("--data-dir", type=click.Path(path_type=Path), help="The data directory to look at.")
@click.option("--docker-host", help="A container engine's address to try.")
@click.option("--confirm-clock", is_flag=True, help="The clock is right: let time that was held after a reboot pass.")
def command(confirm_clock: bool, **flags: Any) -> None:
    """Check this machine: Python, data directory, disk, port, container engine, clock. Exits 1 when something is wrong."""
    from windlass.boot.settings import load

    settings = load(os.environ, {name: value for name, value in flags.items() if value is not None})
    findings = list(_examine(settings, confirm_clock))
    for finding in findings:
        _show(finding)
    sys.exit(any(not finding.is_well and finding.is_fatal for finding in findings))


def _examine(settings: Any, confirm_clock: bool) -> Iterator[Finding]:
    from windlass.boot.installation import Installation

    installation = Installation(settings.data_dir)
    yield _python()
    yield _data_dir(settings.data_dir)
    yield _disk(settings.data_dir)
    yield _server(settings, installation.server_pid())
    address, engine = _engine(settings, installation.engines())
    yield engine
    yield _slices(address)
    if address is not None:
        yield _networks(address, settings)
    if settings.kubernetes is not None:
        yield _cluster(settings.kubernetes)
        if settings.kubernetes.tenants:
            yield _release_key(installation.keys)
    if installation.clock.exists():
        yield _clock(installation.clock, confirm_clock)


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding(what="python", is_well=sys.version_info >= (3, 11), said=version, advice="3.11 or newer is needed")


def _data_dir(path: Path) -> Finding:
    nearest = next(parent for parent in (path, *path.parents) if parent.exists())
    advice = (
        f"{nearest} is a file; see --data-dir" if nearest.is_file() else f"{nearest} cannot be written; see --data-dir"
    )
    well = os.access(nearest, os.W_OK) and not nearest.is_file()
    return Finding(what="data directory", is_well=well, said=str(path), advice=advice)


def _disk(path: Path) -> Finding:
    nearest = next(parent for parent in (path, *path.parents) if parent.exists())
    free = shutil.disk_usage(nearest).free
    return Finding(
        what="disk",
        is_well=free >= _MIN_FREE,
        said=f"{free / (1 << 30):.1f} GiB free",
        advice="make room: 1 GiB at least",
    )


def _server(settings: Any, pid: int | None) -> Finding:
    if pid is not None:
        return _running(settings.data_dir, pid)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            advice = "another program has it: choose one with --port"
            return Finding(
                what="port", is_well=False, said=f"{settings.host}:{settings.port}: {error.strerror}", advice=advice
            )
    return Finding(what="server", is_well=True, said=f"not running; {settings.host}:{settings.port} is free")


def _running(data_dir: Path, pid: int) -> Finding:
    """How it decides, by its own word: this process may be another build."""
    from windlass.client.client import Client
    from windlass.client.connection import find
    from windlass.client.transport import Timeouts, Transport
    from windlass.core.errors import WindlassError

    try:
        connection = find({"WINDLASS_DATA_DIR": str(data_dir)})
        timeouts = Timeouts(connect_seconds=_ANSWER_SECONDS, answer_seconds=_ANSWER_SECONDS)
        about = Client(connection, transport=Transport(connection, timeouts=timeouts)).version()
    except WindlassError:
        advice = (
            f"begin anew: kill -9 {pid}, then windlass up; nothing that was accepted is lost, and what runs goes on"
        )
        return Finding(what="server", is_well=False, said=f"running (pid {pid}), but it does not answer", advice=advice)
    how = "compiled" if about.get("compiled") else "interpreted"
    return Finding(what="server", is_well=True, said=f"running (pid {pid}; it decides {how})")


def _engine(settings: Any, used: tuple[str, ...]) -> tuple[str | None, Finding]:
    """Its address, where one answers."""
    import anyio

    from windlass.adapters.runtime.docker.finding import find_engine

    found = anyio.run(find_engine, os.environ, settings.docker_host or next(reversed(used), None))
    if found.docker_host is not None:
        return found.docker_host, Finding(what="containers", is_well=True, said=found.docker_host)
    return None, Finding(
        what="containers",
        is_well=False,
        is_fatal=False,
        said="no engine answers: " + "; ".join(f"{one.address} ({one.why_not})" for one in found.tried),
        advice="start Docker or Podman; without one, jobs run as plain processes",
    )


def _slices(address: str | None) -> Finding:
    """Can workers cut from this machine be held to what they have?"""
    import anyio

    from windlass.adapters.runtime import cgroups, docker

    if address is not None:
        why_not = anyio.run(docker.slices_lack, address, os.environ)
    else:
        found, why_not = cgroups.Cgroups.find("doctor")
        if found is not None:
            found.remove()
    return Finding(
        what="slices",
        is_well=not why_not,
        is_fatal=False,
        said=f"no cgroup of their own: {why_not}" if why_not else "each has a cgroup of its own, with its limits",
        advice="runs on workers of dynamic pools keep their own limits, but are not held together by their worker's",
    )


def _networks(address: str, settings: Any) -> Finding:
    """Are runs kept off the node, and tenants off each other?"""
    import anyio

    from windlass.adapters.runtime import docker
    from windlass.boot.local import addresses

    why_not = anyio.run(docker.networks_lack, address, os.environ, addresses(settings))
    return Finding(
        what="networks",
        is_well=not why_not,
        is_fatal=False,
        said=f"no rules of ours: {why_not}" if why_not else "one for each tenant; none reaches the node or another's",
        advice="what the engine itself keeps apart is all that keeps runs off the node, link-local and each other",
    )


def _cluster(wanted: Any) -> Finding:
    """Whether it answers and knows our kind of object; whether an operator looks after them only a job would show."""
    import anyio

    from windlass.boot.clusters import examine

    said, advice = anyio.run(examine, wanted)
    return Finding(what="kubernetes", is_well=not advice, said=said, advice=advice)


def _release_key(keys: Path) -> Finding:
    """Public, for the operator's settings."""
    from windlass.adapters.keys.directory import KeyDirectory

    return Finding(what="release key", is_well=True, said=KeyDirectory(keys).public_key())


def _clock(path: Path, confirm: bool) -> Finding:
    from windlass.adapters.clock.service import ServiceClock
    from windlass.core.errors import WindlassError

    try:
        clock = ServiceClock(path)
    except (OSError, WindlassError) as error:
        return Finding(
            what="clock", is_well=False, said=str(error), advice=getattr(error, "hint", None) or "see the disk"
        )
    if confirm and clock.held_ms:
        clock.confirm()
    held = clock.held_ms // 3_600_000
    return Finding(
        what="clock",
        is_well=clock.held_ms == 0,
        said="steady" if clock.held_ms == 0 else f"{held} hours passed over a reboot and were not believed: TTLs wait",
        advice="if the clock is right: windlass doctor --confirm-clock, while the server is down",
    )


def _show(finding: Finding) -> None:
    if finding.is_well:
        mark = click.style("✓", fg="green")
    else:
        mark = click.style("✗", fg="red") if finding.is_fatal else click.style("!", fg="yellow")
    click.echo(f"{mark} {finding.what.ljust(15)} {finding.said}")
    if not finding.is_well and finding.advice:
        click.echo(f"  {'':15} {click.style(finding.advice, dim=True)}")
