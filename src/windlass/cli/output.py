"""Where text goes: `-o` forms, terminal width and colour, and bytes of logs to the stream they came from."""

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click
import msgspec

from windlass.cli.plain import clean_json, is_plain
from windlass.cli.render import table
from windlass.cli.render.fit import Columns
from windlass.client.documents import LogLine
from windlass.client.streams import bytes_of_line

F = TypeVar("F", bound=Callable[..., Any])
FORMS = ("table", "wide", "json", "yaml", "name")


def output_option(*forms: str, default: str = "table") -> Callable[[F], F]:
    return click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice(forms or FORMS),
        default=default,
        show_default=True,
        help="Form of the output.",
    )


def is_terminal(*, err: bool = False) -> bool:
    stream = sys.stderr if err else sys.stdout
    return stream is not None and stream.isatty()  # None: closed by whoever started us


def can_redraw(*, err: bool = False) -> bool:
    """Whether what stands there can be written over: spinners, progress, a list that lives."""
    return is_terminal(err=err) and os.environ.get("TERM") != "dumb"


def is_coloured(*, err: bool = False) -> bool:
    return is_terminal(err=err) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width() -> int | None:
    """None when the output is not a terminal: pipes get everything."""
    if not is_terminal():
        return None
    import shutil  # it brings three compressors along

    return shutil.get_terminal_size().columns


def say(text: str, *, err: bool = False) -> None:
    click.echo(text, err=err, color=is_coloured(err=err))


def note(text: str) -> None:
    """For people beside the output, not in it."""
    say(text, err=True)


def show_json(document: object) -> None:
    say(clean_json(msgspec.json.format(msgspec.json.encode(document), indent=2).decode()))


def show_yaml(document: object) -> None:
    text = msgspec.yaml.encode(document).decode()
    say((text if is_plain(text) else _escaped_yaml(document)).rstrip("\n"))


def _escaped_yaml(document: object) -> str:
    """The same to a program, with every character escaped that is not ASCII: YAML lets some stand that turn a line's direction."""
    import yaml

    return str(yaml.safe_dump(msgspec.to_builtins(document), sort_keys=False, allow_unicode=False))


def show_document(document: object, form: str) -> bool:
    """Whether `form` is one for programs; then it is shown."""
    if form in {"json", "yaml"}:
        (show_json if form == "json" else show_yaml)(document)
    return form in {"json", "yaml"}


def show_manifests(kind: str, found: Sequence[Any], form: str, *, is_single: bool = False) -> bool:
    """As `show_document`, and by name."""
    if form == "name":
        for one in found:
            say(f"{kind}/{one['metadata']['name']}")
        return True
    return show_document(found[0] if is_single else {"items": found}, form)


def show_table(headings: Columns | Sequence[str], rows: Iterable[table.Row], form: str = "table") -> None:
    """As wide as the terminal; whole in a pipe, and where `form` is `wide`."""
    shown = table.laid(headings, rows, is_coloured=is_coloured(), width=None if form == "wide" else width())
    for line in shown.lines:
        say(line)
    if shown.left_out and is_terminal(err=True):
        note(styled(f"-o wide adds {', '.join(shown.left_out)}", dim=True))


def styled(text: str, **style: Any) -> str:
    """For stdout."""
    return click.style(text, **style) if is_coloured() else text


class LogWriter:
    """A job's stdout to ours and its stderr to ours, byte for byte, in the order they were written."""

    def __init__(self, *, has_timestamps: bool = False, is_live: bool = True) -> None:
        self._has_timestamps = has_timestamps
        self._is_live = is_live
        self._at_line_start = {"stdout": True, "stderr": True}
        self._last = ""

    def write(self, line: LogLine) -> None:
        stream = line.get("stream", "stdout")
        if self._last and stream != self._last:
            self._sink(self._last).flush()
        self._last = stream
        content = bytes_of_line(line) + (b"" if line.get("partial") else b"\n")
        if self._has_timestamps and self._at_line_start[stream]:
            content = f"{line['at']} ".encode() + content
        self._at_line_start[stream] = not line.get("partial")
        sink = self._sink(stream)
        sink.write(content)
        if self._is_live:
            sink.flush()

    def flush(self) -> None:
        for stream in ("stdout", "stderr"):
            self._sink(stream).flush()

    @staticmethod
    def _sink(stream: str) -> Any:
        return sys.stderr.buffer if stream == "stderr" else sys.stdout.buffer
