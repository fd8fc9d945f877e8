"""The commented settings file of `--init`, made from the one list of settings."""

from windlass.images.settings import SETTINGS

_REQUIRED = (
    (
        "NODES",
        ("worker-1", "admin@worker-2:2222"),
        "[user@]host[:port], or an alias of ~/.ssh/config; NODE1, NODE2 … work too",
    ),
    ("PREFIXES", ("registry.example.com/team/",), "only images whose names begin so; PREFIX1, PREFIX2 … work too"),
)
"""Written as examples in comments: a file nobody has edited must not run, least of all on hosts that happen to exist."""


def initial_settings(as_toml: bool) -> str:
    lines = ["# image-sync: the same images on every node. This file is read, never run.", ""]
    for key, examples, about in _REQUIRED:
        lines += [f"# {about}", f"# {_list(key, examples, as_toml)}", _list(key, (), as_toml), ""]
    lines += [
        "# day-wise logs and the lock go here; whoever runs image-sync must be able to write there",
        _text("LOG_DIR", "/var/log/image-sync", as_toml),
        "",
        "# Optional, with defaults:",
    ]
    for setting in SETTINGS:
        lines += [f"# {setting.about}", f"#{_text(setting.key, setting.default, as_toml)}"]
    return "\n".join(lines) + "\n"


def _list(key: str, items: tuple[str, ...], as_toml: bool) -> str:
    if as_toml:
        return f"{key.lower()} = [{', '.join(_quoted(item) for item in items)}]"
    return f'{key}="{" ".join(items)}"'


def _text(key: str, value: str, as_toml: bool) -> str:
    if as_toml:
        return f"{key.lower()} = {value if value.isdigit() or value in ('true', 'false') else _quoted(value)}"
    return f'{key}="{value}"'


def _quoted(text: str) -> str:
    return f'"{text}"'
