"""What every verb shares: the connection's options, the client made from them, and words after `--` kept apart."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from windlass.cli.interrupts import endings_raised
from windlass.client.client import Client
from windlass.client.connection import find

F = TypeVar("F", bound=Callable[..., Any])
_META = "windlass.connection_"
AFTER_DASHES = "windlass.after-dashes"


class Command(click.Command):
    """A verb that talks to the server; `--url` and its like may stand before or after the verb."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _name_numbers(self.params)
        self.params.extend(connection_options(is_hidden=True))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Everything that cannot be taken is told at once, not the first of it."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.BadParameter as first:
            faults = list(_faults(self, ctx, given))
            if len(faults) < 2:
                raise
            raise click.UsageError("\n  - ".join([f"{len(faults)} of these cannot be taken", *faults]), ctx) from first


class CommandWithWords(Command):
    """`verb [options] ARGS… -- WORDS…`: what follows the dashes is somebody else's and is not looked at."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        has_dashes = "--" in args
        if has_dashes:
            cut = args.index("--")
            ctx.meta[AFTER_DASHES] = tuple(args[cut + 1 :])
            args = args[:cut]
        try:
            return super().parse_args(ctx, args)
        except (click.NoSuchOption, click.BadOptionUsage) as exc:
            if has_dashes:
                raise
            words = f"{exc.format_message().rstrip('.')}; if it belongs to the command, put `--` before the command"
            raise click.UsageError(words, ctx) from exc


def _faults(command: click.Command, ctx: click.Context, args: list[str]) -> Iterator[str]:
    """Each parameter judged alone, and each value of one that may be repeated."""
    options, rest, _ = command.make_parser(ctx).parse_args(args=args)
    for param in command.get_params(ctx):
        name = param.name or ""
        given = options.get(name)
        for one in ([value] for value in given) if param.multiple and isinstance(given, list) else (given,):
            try:
                param.handle_parse_result(ctx, {**options, name: one} if name in options else options, list(rest))
            except click.BadParameter as exc:
                exc.ctx, exc.param = exc.ctx or ctx, exc.param or param
                yield exc.format_message()


def refuse_words(ctx: click.Context, kept: Sequence[str], words: Sequence[str]) -> None:
    """A command without its dashes would lose its own options to us, so it is not taken at all."""
    if words:
        line = " ".join([ctx.command_path, *kept, "--", *words])
        raise click.UsageError(f"the command comes after `--`: {line}", ctx)


def words_after_dashes(ctx: click.Context) -> tuple[str, ...] | None:
    """None when there were no dashes at all."""
    words: tuple[str, ...] | None = ctx.meta.get(AFTER_DASHES)
    return words


def connection_options(*, is_hidden: bool = False) -> list[click.Parameter]:
    def option(name: str, help_text: str, metavar: str, *short: str) -> click.Option:
        names = [*short, f"--{name}", f"connection_{name.replace('-', '_')}"]  # no verb has an argument of that name
        return click.Option(
            names, help=help_text, metavar=metavar, hidden=is_hidden, expose_value=False, callback=_remember
        )

    return [
        option("url", "The server's address; else WINDLASS_URL, else what `windlass up` wrote.", "URL"),
        option("token", "The bearer token; else WINDLASS_TOKEN, else what `windlass up` wrote.", "JWT"),
        option("data-dir", "Where `windlass up` keeps its files; else WINDLASS_DATA_DIR.", "DIR"),
        option("kubeconfig", "Speak to a cluster instead; so do --context, -n and WINDLASS_HOME=kubernetes.", "FILE"),
        option("context", "A context of the kubeconfig.", "NAME"),
        option("namespace", "A namespace of the cluster.", "NAME", "-n"),
    ]


def client_of(ctx: click.Context) -> Client:
    client = _of_cluster(ctx) if _means_cluster(ctx) else _of_server(ctx)
    ctx.call_on_close(client.close)
    return client


def _name_numbers(params: Sequence[click.Parameter]) -> None:
    """`N` in the help, where click would say INTEGER RANGE; the bounds stand behind it all the same."""
    for param in params:
        if (
            param.metavar is None
            and isinstance(param.type, click.IntRange | click.FloatRange)
            and param.multiple is False
        ):
            param.metavar = "N"


def _means_cluster(ctx: click.Context) -> bool:
    given = any(_META + name in ctx.meta for name in ("kubeconfig", "context", "namespace"))
    return given or os.environ.get("WINDLASS_HOME") == "kubernetes"


def _of_cluster(ctx: click.Context) -> Client:
    try:
        from windlass.client.kube.api import read_config
        from windlass.client.kube.home import KubeClient
    except ImportError as exc:
        raise click.ClickException("a cluster needs two more packages: pip install 'windlass[k8s]'") from exc
    ctx.with_resource(endings_raised())  # what is made in a cluster beside a job is taken away again
    file, context = (ctx.meta.get(_META + name) for name in ("kubeconfig", "context"))
    config = read_config(Path(file) if file else None, context)
    return KubeClient(
        config,
        namespace=ctx.meta.get(_META + "namespace"),
        side_image=os.environ.get("WINDLASS_SIDE_IMAGE", ""),
        way=[*(("--kubeconfig", file) if file else ()), *(("--context", context) if context else ())],
    )


def _of_server(ctx: click.Context) -> Client:
    return Client(
        find(
            os.environ,
            url=ctx.meta.get(_META + "url"),
            token=ctx.meta.get(_META + "token"),
            data_dir=ctx.meta.get(_META + "data_dir"),
        )
    )


def _remember(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.meta[f"windlass.{param.name}"] = value
