"""How the command line says no: what was wrong, where, and what to do next, on stderr, without a traceback."""

import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import click

from windlass.cli import exits
from windlass.cli.plain import clean_lines, make_do
from windlass.client import problems
from windlass.core.errors import WindlassError

_AROUND = 20


class ReaderGone(Exception):
    """Whoever read our output has left, as `head` does."""


def guarded(action: Callable[[], Any]) -> NoReturn:
    """Run a command to its exit code. WINDLASS_DEBUG=1 lets the traceback through."""
    make_do()
    try:
        result = action()
        if sys.stdout is not None:  # closed by whoever started us
            sys.stdout.flush()
    except click.exceptions.Exit as exc:
        sys.exit(exc.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(exits.INTERRUPTED)
    except click.ClickException as exc:
        show_usage(exc)
        sys.exit(exc.exit_code)
    except (BrokenPipeError, ReaderGone):
        _forget_stdout()
        sys.exit(exits.READER_GONE)
    except UnicodeEncodeError as exc:
        if is_debugging():
            raise
        show_unsendable(exc)
        sys.exit(exits.USAGE)
    except (WindlassError, OSError) as exc:
        if is_debugging():
            raise
        show(exc)
        sys.exit(exits.of_error(exc))
    except Exception as exc:
        if is_debugging():
            raise
        echo("error:", f"{type(exc).__name__}: {exc}", colour="red")
        echo("hint:", "this is a bug in windlass; WINDLASS_DEBUG=1 shows where", colour="cyan")
        sys.exit(exits.GENERAL)
    sys.exit(result if isinstance(result, int) else exits.OK)


def show(error: Exception) -> None:
    if not isinstance(error, WindlassError):
        echo("error:", _words(error), colour="red")
        return
    echo("error:", error.message, colour="red")
    for fault in error.faults:
        echo("  -", f"{fault.field}: {fault.message}" if fault.field else fault.message)
    hint = _own_hint(error) or error.hint or _usual_hint(error)
    if hint:
        echo("hint:", hint, colour="cyan")
    if type(error) is WindlassError and (request := problems.request_id(error)):
        echo("request:", f"{request} (the server's log has more under this id)")


def show_unsendable(exc: UnicodeEncodeError) -> None:
    """Bytes of a command line that are no text reach us as half characters, and no request can hold them."""
    around = exc.object[max(0, exc.start - _AROUND) : exc.end + _AROUND]
    shown = os.fsencode(around) if "surrogates" in exc.reason else around.encode("utf-8", "backslashreplace")
    echo("error:", f"not text in UTF-8: {ascii(shown)[1:]}", colour="red")
    echo(
        "hint:",
        "what goes to the server is text; files may hold any bytes: upload one with --project-dir",
        colour="cyan",
    )


def show_usage(exc: click.ClickException) -> None:
    if isinstance(exc, click.exceptions.NoArgsIsHelpError):
        click.echo(exc.ctx.get_help() if exc.ctx else exc.format_message())
        return
    echo("error:", exc.format_message(), colour="red")
    ctx = getattr(exc, "ctx", None)
    if ctx is not None:
        echo("usage:", " ".join(ctx.get_usage().removeprefix("Usage:").split()))
        echo("hint:", f"`{ctx.command_path} --help` says more", colour="cyan")


def echo(label: str, text: str, *, colour: str | None = None) -> None:
    """`text` may be foreign: a server's words, a name that was typed."""
    styled = click.style(label, fg=colour, bold=colour == "red")
    click.echo(f"{styled} {clean_lines(text)}", err=True, color=colour_wanted())


def colour_wanted() -> bool | None:
    """None leaves it to click: colour on a terminal, none elsewhere."""
    return False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None


def is_debugging() -> bool:
    return os.environ.get("WINDLASS_DEBUG", "") not in {"", "0"}


def _own_hint(error: WindlassError) -> str | None:
    """The server's words are for whoever writes requests by hand."""
    if error.code == "unauthenticated":
        return "give --token or WINDLASS_TOKEN, or run this where `windlass up` wrote one, as the user who ran it"
    return None


def _usual_hint(error: WindlassError) -> str | None:
    if error.code == "name-taken":
        return "choose another name, or `windlass delete` the job that has it"
    return None


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def _forget_stdout() -> None:
    """Whoever read our output has left; the interpreter must not complain about it on its way out."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
