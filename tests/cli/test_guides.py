"""The guides tell the truth: every command in them parses, and every verb, flag and exit code is in them."""

import re
import shlex
from pathlib import Path

import click
import pytest

from windlass.cli import exits
from windlass.cli.app import build
from windlass.cli.egpu.app import build as build_egpu

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
COMMANDS = [
    part.strip()
    for guide in ("cli.md", "egpu.md")
    for line in re.findall(r"^\$ (.+)$", (GUIDES / guide).read_text(), re.MULTILINE)
    for part in line.split(" | ")
]
GROUPS = {"windlass": build({}), "egpu": build_egpu()}


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_in_the_guides_parses(line: str) -> None:
    program, *words = shlex.split(line)
    command: click.Command = GROUPS[program]
    ctx = command.make_context(program, list(words))
    name, verb, rest = GROUPS[program].resolve_command(ctx, [*ctx._protected_args, *ctx.args])
    assert verb is not None
    assert verb.make_context(name, rest, parent=ctx).params is not None


@pytest.mark.parametrize(("program", "guide"), [("windlass", "cli.md"), ("egpu", "egpu.md")])
def test_every_verb_is_in_its_guide(program: str, guide: str) -> None:
    text = (GUIDES / guide).read_text()
    missing = [
        verb
        for verb in GROUPS[program].list_commands(click.Context(GROUPS[program]))
        if f"{program} {verb}" not in text
    ]
    assert missing == []


def test_every_flag_of_egpu_create_is_in_its_guide() -> None:
    text = (GUIDES / "egpu.md").read_text()
    create = GROUPS["egpu"].get_command(click.Context(GROUPS["egpu"]), "create")
    assert create is not None
    flags = [option.opts[-1] for option in create.params if isinstance(option, click.Option) and not option.hidden]
    assert [flag for flag in flags if flag not in text] == []


def test_every_exit_code_is_in_the_guide() -> None:
    text = (GUIDES / "cli.md").read_text()
    codes = [value for name, value in vars(exits).items() if name.isupper() and isinstance(value, int)]
    assert [code for code in codes if f"| {code} |" not in text] == []
