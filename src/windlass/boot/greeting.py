"""What a person sees when the server is up: where it is, what it runs on, what to try first; loudly, when there is no isolation."""

import shutil
import sys
from pathlib import Path

import click

from windlass import __version__
from windlass.adapters.runtime.docker.finding import Found
from windlass.boot.installation import Installation
from windlass.ports.runtime import Machine

_GIB = 1 << 30


def greet(url: str, machine: Machine, installation: Installation, found: Found | None) -> None:
    say(click.style(f"Windlass {__version__} is up.", bold=True))
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
    say("Try, in another terminal:")
    for line in _first_commands(machine):
        say("  " + click.style(line, fg="green"))
    say("")
    say(click.style("Ctrl-C stops the server; what runs goes on, and `windlass up` takes it up again.", dim=True))


def say_stopped() -> None:
    say("Stopped. What runs goes on; `windlass up` takes it up again, `windlass down` ends it.")


def say(line: str) -> None:
    click.echo(line, file=sys.stderr)


def _first_commands(machine: Machine) -> tuple[str, ...]:
    image = "" if machine.kind == "process" else "busybox "
    return (*_path_to_us(), f"windlass run {image}-- echo hello", "windlass get jobs")


def _path_to_us() -> tuple[str, ...]:
    """After `make up` in a clone the command is in .venv/bin, and a stranger's shell does not know it."""
    return () if shutil.which("windlass") else (f'export PATH="{Path(sys.argv[0]).absolute().parent}:$PATH"',)


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


def _describe(machine: Machine) -> str:
    gpus = f"{machine.capacity.gpus} GPU" if machine.capacity.gpus else "no GPU"
    cores = f"{machine.capacity.cpu_millis / 1000:g} cores"
    return f"{machine.runtime} · {cores} · {machine.capacity.memory_bytes / _GIB:.1f} GiB · {gpus}"


def _short(path: Path) -> str:
    home = str(Path.home())
    text = str(path)
    return "~" + text[len(home) :] if text.startswith(home + "/") else text
