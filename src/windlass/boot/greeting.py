"""What a person sees when the server is up: where it is, what it runs on, what to try first; loudly, when there is no isolation."""

import os
import shlex
import shutil
import sys
from pathlib import Path

import click

from windlass import __version__
from windlass.adapters.runtime.docker.finding import Found
from windlass.boot.installation import Installation
from windlass.client.connection import default_data_dir
from windlass.core.compiled import IS_COMPILED
from windlass.ports.runtime import Machine

_GIB = 1 << 30


def greet(url: str, machine: Machine, installation: Installation, found: Found | None, *, held_ms: int = 0) -> None:
    compiled = " It decides compiled." if IS_COMPILED else ""
    say(click.style(f"Windlass {__version__} is up.{compiled}", bold=True))
    say("")
    rows = {
        "address": url,
        "runs on": _describe(machine),
        "data": _short(installation.root),
        "token": f"{_short(installation.token)} (the command line finds it by itself)",
        "page": "windlass open",
    }
    for name, value in rows.items():
        say(f"  {click.style(name.ljust(9), dim=True)}{value}")
    say("")
    if machine.kind == "process":
        _warn_of_processes(found)
    elif machine.networks_lack:
        _warn_of_networks(machine)
    if held_ms:
        _warn_of_clock(held_ms)
    say("Try, in another terminal:")
    for line in _first_commands(machine, installation):
        say("  " + click.style(line, fg="green"))
    say("")
    say(click.style("Ctrl-C stops the server; what runs goes on, and `windlass up` takes it up again.", dim=True))


def say_stopped(*, by_down: bool) -> None:
    """`windlass down` tells by itself what it ended."""
    goes_on = " What runs goes on; `windlass up` takes it up again, `windlass down` ends it."
    say("Stopped." if by_down else f"Stopped.{goes_on}")


def say(line: str) -> None:
    click.echo(line, file=sys.stderr)


def _first_commands(machine: Machine, installation: Installation) -> tuple[str, ...]:
    image = "" if machine.kind == "process" else "busybox "
    run = f"windlass run {image}-- echo hello"
    return (*_path_to_us(), *_way_to_the_data(installation), run, "windlass get jobs")


def _way_to_the_data(installation: Installation) -> tuple[str, ...]:
    """Another shell looks in the usual place; elsewhere it has to be told."""
    elsewhere = {name: value for name, value in os.environ.items() if name != "WINDLASS_DATA_DIR"}
    if installation.root == default_data_dir(elsewhere).absolute():
        return ()
    return (f"export WINDLASS_DATA_DIR={shlex.quote(str(installation.root))}",)


def _path_to_us() -> tuple[str, ...]:
    """After `make up` in a clone the command is in .venv/bin, and a stranger's shell does not know it."""
    return () if shutil.which("windlass") else (f'export PATH="{Path(sys.argv[0]).absolute().parent}:$PATH"',)


def _warn_of_clock(held_ms: int) -> None:
    hours = held_ms // 3_600_000
    say(
        click.style(
            f"TIME IS HELD BACK: {hours} hours passed over a reboot and were not believed; TTLs wait.", fg="yellow"
        )
    )
    say(click.style("  If the clock is right: windlass doctor --confirm-clock, while the server is down.", fg="yellow"))


def _warn_of_processes(found: Found | None) -> None:
    say(
        click.style(
            "NO CONTAINERS: jobs run as plain processes of yours, with your rights and without isolation.", fg="yellow"
        )
    )
    if found is not None:
        for one in found.tried:
            say(click.style(f"  {one.address}: {one.why_not}", fg="yellow", dim=True))
        say(click.style("  Start Docker or Podman and `windlass up` again to run containers.", fg="yellow"))
    say("")


def _warn_of_networks(machine: Machine) -> None:
    """Not so loud: on a machine of one person it is as it always was."""
    say(click.style(f"Runs can reach services of this machine: {machine.networks_lack}.", fg="yellow", dim=True))
    say("")


def _describe(machine: Machine) -> str:
    gpus = f"{machine.capacity.gpus} GPU" if machine.capacity.gpus else "no GPU"
    cores = f"{machine.capacity.cpu_millis / 1000:g} cores"
    return f"{machine.runtime} · {cores} · {machine.capacity.memory_bytes / _GIB:.1f} GiB · {gpus}"


def _short(path: Path) -> str:
    home = str(Path.home())
    text = str(path)
    return "~" + text[len(home) :] if text.startswith(home + "/") else text
