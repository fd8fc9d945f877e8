"""Where the server is and who we are: flags, then environment, then the context file that `windlass up` leaves behind."""

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from windlass.core.errors import Denied, Invalid

DEFAULT_URL = "http://127.0.0.1:8080"
CONTEXT_FILE = "client.json"


class Connection(Struct, frozen=True, kw_only=True):
    url: str = DEFAULT_URL
    token: str = ""


class Context(Struct, frozen=True, kw_only=True):
    """`<data dir>/client.json`, mode 0600."""

    url: str
    token_file: str


def find(
    environ: Mapping[str, str], *, url: str | None = None, token: str | None = None, data_dir: str | None = None
) -> Connection:
    """The first of flags, WINDLASS_URL and WINDLASS_TOKEN, and the context file that says it.

    The context's token goes to the context's own server only: a token of this machine is never sent to an address that
    came from elsewhere.
    """
    _check_given(token, "--token")
    url, token = url or environ.get("WINDLASS_URL"), token or environ.get("WINDLASS_TOKEN")
    if url and token:
        return Connection(url=url.rstrip("/"), token=token.strip())  # nothing on this machine matters then
    context = read_context(default_data_dir(environ) if data_dir is None else Path(data_dir))
    url = url or (context.url if context else DEFAULT_URL)
    if not token and context and same_server(url, context.url):
        token = _read_token(Path(context.token_file))
    return Connection(url=url.rstrip("/"), token=(token or "").strip())


def _check_given(token: str | None, where: str) -> None:
    """An empty one is a file that was not there or a variable that was not set, and must not become the admin of this machine."""
    if token is not None and not token.strip():
        raise Invalid(
            f"{where} is empty; expected a token", code="token-empty", hint="leave it out to use this machine's own"
        )


def default_data_dir(environ: Mapping[str, str]) -> Path:
    if given := environ.get("WINDLASS_DATA_DIR"):
        return Path(given)
    base = environ.get("XDG_DATA_HOME")
    home = Path(environ.get("HOME") or Path.home())
    return (Path(base) if base else home / ".local" / "share") / "windlass"


def read_context(data_dir: Path) -> Context | None:
    path = data_dir / CONTEXT_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Context)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as exc:
        raise _unreadable(path) from exc
    except msgspec.MsgspecError as exc:
        raise Invalid(f"{path} is damaged: {exc}", hint="`windlass up` writes it anew") from exc


def same_server(url: str, other: str) -> bool:
    return url.rstrip("/").lower() == other.rstrip("/").lower()


def _read_token(path: Path) -> str | None:
    try:
        return path.read_text()
    except PermissionError as exc:
        raise _unreadable(path) from exc
    except OSError:
        return None


def _unreadable(path: Path) -> Denied:
    return Denied(
        f"{path} cannot be read: permission denied",
        hint="run this as the user who ran `windlass up`, or give --url and --token",
    )
