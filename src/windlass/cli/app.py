"""The `windlass` command: the list of verbs and where each lives. `boot` adds its own by name and calls it."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import click

from windlass import __version__
from windlass.cli.command import connection_options
from windlass.cli.failures import ReaderGone, colour_wanted, guarded
from windlass.cli.lazy import LazyGroup, Verb

RUN, LOOK, FILES, CHANGE, SERVER, OTHER = (
    "Run something",
    "Look at it",
    "Files and terminals",
    "Change it",
    "The server",
    "Other",
)
_HERE = "windlass.cli.commands"

VERBS: Mapping[str, Verb] = {
    "run": Verb(at=f"{_HERE}.run:run", section=RUN, help="Run a command, stream its output, return its exit code."),
    "apply": Verb(at=f"{_HERE}.apply:apply", section=RUN, help="Create what a manifest file describes."),
    "get": Verb(at=f"{_HERE}.get:get", section=LOOK, help="List jobs, nodes, volumes, pools or tenants."),
    "describe": Verb(at=f"{_HERE}.describe:describe", section=LOOK, help="Everything about one job or tenant."),
    "logs": Verb(at=f"{_HERE}.logs:logs", section=LOOK, help="What a job printed."),
    "watch": Verb(at=f"{_HERE}.watch:watch", section=LOOK, help="See changes as they happen."),
    "why": Verb(at=f"{_HERE}.why:why", section=LOOK, help="Why a job waits, and what would start it now."),
    "plan": Verb(at=f"{_HERE}.plan:plan", section=LOOK, help="What a manifest would do: node, start, price."),
    "events": Verb(at=f"{_HERE}.events:events", section=LOOK, help="What happened, as it was recorded."),
    "audit": Verb(at=f"{_HERE}.audit:audit", section=LOOK, help="Who did what; for admins."),
    "simulate": Verb(at=f"{_HERE}.simulate:simulate", section=LOOK, help="Replay a trace under other rules."),
    "fairness": Verb(at=f"{_HERE}.queues:fairness", section=LOOK, help="Who deserved what, and who got it."),
    "queues": Verb(at=f"{_HERE}.queues:queues", section=LOOK, help="Who waits, and for what."),
    "cost": Verb(at=f"{_HERE}.money:cost", section=LOOK, help="What runs cost, by day, pool, job or tenant."),
    "savings": Verb(at=f"{_HERE}.money:savings", section=LOOK, help="Where money could be saved, with evidence."),
    "prices": Verb(at=f"{_HERE}.prices:prices", section=LOOK, help="What things cost, by pool and by tier."),
    "cp": Verb(at=f"{_HERE}.files:cp", section=FILES, help="Copy files to or from a job."),
    "download": Verb(at=f"{_HERE}.files:download", section=FILES, help="Fetch a job's artifacts."),
    "copy-file": Verb(at=f"{_HERE}.files:copy_file", section=FILES, help="Let the server fetch a URL into a volume."),
    "attach": Verb(at=f"{_HERE}.terminals:attach", section=FILES, help="Connect to a running job's terminal."),
    "exec": Verb(at=f"{_HERE}.terminals:execute", section=FILES, help="Run a command inside a running job."),
    "debug": Verb(at=f"{_HERE}.terminals:debug", section=FILES, help="A shell beside a job's volume."),
    "cancel": Verb(at=f"{_HERE}.change:cancel", section=CHANGE, help="Stop jobs; they end as CANCELLED."),
    "release": Verb(at=f"{_HERE}.change:release", section=CHANGE, help="Let suspended jobs run."),
    "delete": Verb(at=f"{_HERE}.change:delete", section=CHANGE, help="Remove jobs and, if asked, their volumes."),
    "cleanup": Verb(at=f"{_HERE}.change:cleanup", section=CHANGE, help="Remove volumes whose time has passed."),
    "tenants": Verb(at=f"{_HERE}.tenants:tenants", section=CHANGE, help="Who shares this server; their tokens."),
    "pools": Verb(at=f"{_HERE}.pools:pools", section=CHANGE, help="Where work may run, and how it grows."),
    "nodes": Verb(at=f"{_HERE}.pools:nodes", section=CHANGE, help="Nodes that shall take no new runs."),
    "secrets": Verb(at=f"{_HERE}.secrets:secrets", section=CHANGE, help="Values that jobs are handed when they start."),
    "registries": Verb(at=f"{_HERE}.registries:registries", section=CHANGE, help="Logins at image registries."),
}
SERVER_HELP: Mapping[str, str] = {
    "up": "Start Windlass on this machine.",
    "server": "Run a control plane for several machines.",
    "down": "Stop what `up` started.",
    "backup": "Save the local home to a file.",
    "restore": "Make a data directory of a backup.",
    "doctor": "Check this machine.",
    "operator": "Run jobs on a Kubernetes cluster.",
    "images": "Keep images equal on every node.",
}
LAST: Mapping[str, Verb] = {
    "open": Verb(at=f"{_HERE}.about:open_page", section=OTHER, help="Print the live page's address."),
    "whoami": Verb(at=f"{_HERE}.about:whoami", section=OTHER, help="Who the server thinks you are."),
    "version": Verb(at=f"{_HERE}.about:version", section=OTHER, help="Versions of client and server."),
    "completion": Verb(at=f"{_HERE}.completion:completion", section=OTHER, help="Set up your shell to complete names."),
}
EXAMPLES = """\b
  windlass run alpine -- echo hello
  windlass run --project-dir . --cpu 2 python:3.12 -- python train.py
  windlass get jobs
  windlass logs -f NAME"""


def build(extra: Mapping[str, str]) -> click.Group:
    """`extra` mounts more verbs by name: `{"up": "windlass.boot.up:command"}`. Nothing of them is imported here."""
    mounted = {name: Verb(at=at, section=SERVER, help=SERVER_HELP.get(name, "")) for name, at in extra.items()}
    return App(
        name="windlass",
        help=f"Run containers, see why they wait, keep what they made.\n\n{EXAMPLES}",
        verbs={**VERBS, **mounted, **LAST},
        params=[*connection_options(), _version_option()],
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )


def _version_option() -> click.Option:
    """Of this program alone, without asking anyone; the verb `version` asks the server too."""

    def show(ctx: click.Context, param: click.Parameter, is_asked: bool) -> None:
        if is_asked and not ctx.resilient_parsing:
            click.echo(f"windlass {__version__}")
            ctx.exit()

    return click.Option(
        ["--version"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help="Print the version and leave.",
    )


class App(LazyGroup):
    """Ends the process with the documented exit codes; shell completion is click's own."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as exc:
            raise ReaderGone from exc  # click would make a plain failure of it

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        extra.setdefault("color", colour_wanted())
        prog_name = prog_name or self.name  # not how we happened to be started: `python -m` would call us `-m`
        run = partial(super().main, args, prog_name, complete_var, standalone_mode=False, **extra)
        return guarded(run) if standalone_mode else run()
