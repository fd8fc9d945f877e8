"""A click group that knows its commands by name, and imports one only when it is called or asked for its own help."""

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Verb(Struct, frozen=True, kw_only=True):
    at: str
    """`module:attribute`"""
    help: str = ""
    """Shown in the list of commands, so that showing it imports nothing. Empty: the command is asked."""
    section: str = "Commands"
    is_hidden: bool = False


class LazyGroup(click.Group):
    def __init__(self, *args: Any, verbs: Mapping[str, Verb], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._verbs = dict(verbs)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._verbs, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        verb = self._verbs.get(cmd_name)
        if verb is None:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = verb.at.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{verb.at} is not a command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as exc:
            near = _nearest(args[0], self._verbs) if args else []
            if near and not args[0].startswith("-"):
                words = f"there is no command {args[0]!r}; did you mean {' or '.join(near)}?"
                raise click.UsageError(words, ctx=exc.ctx) from exc
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, verb in self._verbs.items():
            if verb.is_hidden:
                continue
            sections.setdefault(verb.section, []).append((name, verb.help or self._own_help(ctx, name)))
        width = max((len(name) for rows in sections.values() for name, _ in rows), default=0)
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, text in rows])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """click's own would import every verb to ask whether it is hidden; a shell wants its answer at once."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=verb.help)
            for name, verb in self._verbs.items()
            if name.startswith(incomplete) and not verb.is_hidden
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def _own_help(self, ctx: click.Context, name: str) -> str:
        command = self.get_command(ctx, name)
        return command.get_short_help_str(100) if command else ""


def _nearest(word: str, names: Mapping[str, Verb]) -> list[str]:
    from difflib import get_close_matches

    return get_close_matches(word, names, n=2)
