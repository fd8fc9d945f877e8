"""The command line: `image-sync`, and `windlass images sync|status|prune|copy` on the same parts.

Only click is imported here; the rest comes when a command runs, so that `--help` is quick.
"""

from pathlib import Path
from typing import Any, NoReturn

import click

_OVERRIDES = ("NODES", "PREFIXES", "LOG_DIR", "TIME_OUT", "MAX_PARALLEL", "MAX_TOTAL", "RUNTIME", "LOG_LEVEL")


def _shared(command: Any) -> Any:
    """Options of every verb: where the settings are, and what overrides them."""
    options = (
        click.option("--config", "-c", type=click.Path(path_type=Path, dir_okay=False), help="Settings file."),
        click.option("--node", "-n", "nodes", multiple=True, metavar="[USER@]HOST[:PORT]", help="Instead of NODES."),
        click.option("--prefix", "-p", "prefixes", multiple=True, metavar="TEXT", help="Instead of PREFIXES."),
        click.option("--log-dir", metavar="FOLDER", help="Instead of LOG_DIR."),
        click.option("--timeout", "time_out", metavar="SECONDS", help="Instead of TIME_OUT."),
        click.option("--max-parallel", metavar="N", help="Pulls at once on each node."),
        click.option("--max-total", metavar="N", help="Pulls at once over all nodes."),
        click.option("--runtime", metavar="NAMES", help="auto, all, or some of crictl docker ctr podman."),
        click.option("--log-level", metavar="LEVEL", help="DEBUG, INFO, WARNING or ERROR."),
        click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Any other setting."),
        click.option(
            "--lock-file", type=click.Path(path_type=Path, dir_okay=False), help="Instead of LOG_DIR/image-sync.lock."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


_HELP = {"help_option_names": ["-h", "--help"]}


@click.command("image-sync", context_settings=_HELP)
@_shared
@click.option(
    "--init",
    "init_path",
    is_flag=False,
    flag_value="image-sync.conf",
    metavar="[FILE]",
    help="Write a commented settings file, image-sync.conf or FILE.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be done.")
@click.option("--json", "as_json", is_flag=True, help="The report as JSON on stdout.")
@click.option("--quiet", "-q", is_flag=True, help="No progress bars.")
@click.option("--from-peers", is_flag=True, help="Copy between nodes; do not ask the registry.")
@click.option("--no-peers", is_flag=True, help="Never copy between nodes.")
@click.option("--source", metavar="NODE", help="The node whose versions count, where nodes differ.")
def image_sync(**options: Any) -> None:
    """Make the images whose names begin with a prefix equal on every node, by digest.

    Exit: 0 all equal (or a dry run that reached every node), 1 could not run, 2 wrong usage of the command line,
    3 something is missing or a node was unusable, 130/143 after a signal.
    """
    from windlass.images import verbs

    if options["init_path"]:
        _exit(verbs.write_settings(Path(options["init_path"])))
    if options["from_peers"] and options["no_peers"]:
        raise click.UsageError("--from-peers and --no-peers exclude each other")
    overrides = _overrides(options)
    if options["from_peers"]:
        overrides["PEERS"] = "only"
    if options["no_peers"]:
        overrides["PEERS"] = "never"
    _exit(
        verbs.sync(
            _invocation(options, overrides),
            is_dry_run=options["dry_run"],
            source=options["source"],
            as_json=options["as_json"],
            is_quiet=options["quiet"],
        )
    )


@click.group("images", context_settings=_HELP)
def images() -> None:
    """Keep images equal on every node over ssh; no server needed."""


images.add_command(image_sync, "sync")


@images.command()
@_shared
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--csv", "as_csv", is_flag=True, help="As CSV: image, node, state, size, id.")
@click.option("--exit-code", "is_strict", is_flag=True, help="Exit 3 also when the nodes differ.")
def status(**options: Any) -> None:
    """The node × image matrix: present, missing, different, size. Takes no lock and writes nothing.

    Exit: 0 every node answered (with --exit-code: and all are equal), 1 could not run, 2 wrong usage, 3 a node did not
    answer (with --exit-code: or the nodes differ), 130/143 after a signal.
    """
    from windlass.images import verbs

    shape = "json" if options["as_json"] else "csv" if options["as_csv"] else "text"
    _exit(verbs.status(_invocation(options, _overrides(options)), shape=shape, is_strict=options["is_strict"]))


@images.command()
@_shared
@click.option("--yes", is_flag=True, help="Really remove. Without it nothing is touched.")
@click.option("--keep-newest", metavar="N", help="Images of a repository that always stay.")
@click.option("--protect", multiple=True, metavar="IMAGE", help="A name that stays, besides PROTECT_FILE.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def prune(**options: Any) -> None:
    """Remove images that no rule keeps: in use, newest, protected, young. A dry run unless --yes.

    Exit: 0 done, or said what would go, 1 could not run, 2 wrong usage, 3 a removal failed or a node was unusable,
    130/143 after a signal.
    """
    from windlass.images import verbs

    overrides = _overrides(options)
    if options["keep_newest"] is not None:
        overrides["KEEP_NEWEST"] = options["keep_newest"]
    invocation = _invocation(options, overrides)
    _exit(verbs.prune(invocation, protect=options["protect"], is_real=options["yes"], as_json=options["as_json"]))


@images.command()
@click.argument("image")
@_shared
@click.option("--from", "source", metavar="NODE", help="The node that sends; else any that has it.")
@click.option("--to", "targets", multiple=True, metavar="NODE", help="Nodes that receive; else all that lack it.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def copy(**options: Any) -> None:
    """Copy IMAGE between nodes, without a registry; only missing layers travel where the runtimes allow.

    Exit: 0 it is on all that were asked for, 1 could not run, 2 wrong usage, 3 some did not get it or a node was
    unusable, 130/143 after a signal.
    """
    from windlass.images import verbs

    invocation = _invocation(options, _overrides(options))
    _exit(
        verbs.copy(
            invocation,
            options["image"],
            source=options["source"],
            targets=options["targets"],
            as_json=options["as_json"],
        )
    )


def _overrides(options: dict[str, Any]) -> dict[str, Any]:
    given = {key: options.get(key.lower()) for key in _OVERRIDES}
    chosen = {key: value for key, value in given.items() if value not in (None, ())}
    for pair in options["settings"]:
        key, equals, value = pair.partition("=")
        if not equals:
            raise click.UsageError("--set takes KEY=VALUE")
        chosen[key.upper()] = value
    return chosen


def _invocation(options: dict[str, Any], overrides: dict[str, Any]) -> Any:
    from windlass.images.session import Invocation

    return Invocation(config=options["config"], overrides=overrides, lock_file=options["lock_file"])


def _exit(code: int) -> NoReturn:
    raise click.exceptions.Exit(code)
