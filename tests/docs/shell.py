"""Runs the blocks of a document as a person would type them, and compares what is shown with what is said.

`$ ` begins a command, `> ` continues it; what follows, up to the next command, is what it should say on either stream. `…` stands
for anything within a line, and alone on a line for any lines. Runs of blanks are one blank: columns are as wide as their content.
A command must succeed unless the next one is `echo $?`.
"""

import os
import re
import secrets
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.docs.markdown import Block

_ASKS = "echo $?"


@dataclass
class Step:
    command: str
    expected: list[str] = field(default_factory=list)


def run_block(block: Block, *, directory: Path, environ: Mapping[str, str]) -> None:
    if block.mark == "file":
        path = directory / block.says
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text)
    elif block.language == "sh":
        said, code = _bash(block.text, directory, environ)
        assert code == 0, f"{block} exited with {code}:\n{said}"
    else:
        _run_console(block, directory, environ)


def steps(block: Block) -> list[Step]:
    found: list[Step] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append(Step(line[2:]))
        elif line.startswith("> ") and found and not found[-1].expected:
            found[-1].command += "\n" + line[2:]
        else:
            assert found, f"{block}: a console block begins with a command"
            found[-1].expected.append(line)
    return found


def matches(expected: list[str], said: list[str]) -> bool:
    pattern = "".join(_as_pattern(line) for line in _trimmed(expected))
    return re.fullmatch(pattern, "".join(f"{' '.join(line.split())}\n" for line in _trimmed(said))) is not None


def _run_console(block: Block, directory: Path, environ: Mapping[str, str]) -> None:
    wanted = steps(block)
    mark = f"--{secrets.token_hex(8)}--"
    script = "".join(
        f'{step.command}\n__code=$?; printf "\\n{mark} %s\\n" "$__code"; (exit $__code)\n' for step in wanted
    )
    said, _ = _bash(script + "true\n", directory, environ)
    answers = list(_split(said, mark))
    assert len(answers) == len(wanted), f"{block}: ended early:\n{said}"
    for number, (step, (text, code)) in enumerate(zip(wanted, answers, strict=True)):
        is_asked = number + 1 < len(wanted) and wanted[number + 1].command == _ASKS
        assert code == 0 or is_asked, f"{block}: `{step.command}` exited with {code}:\n{text}"
        shown = "\n".join(step.expected)
        assert matches(step.expected, text.splitlines()), f"{block}: `{step.command}` shows\n{shown}\nbut says\n{text}"


def _bash(script: str, directory: Path, environ: Mapping[str, str]) -> tuple[str, int]:
    plain = {"HOME": str(directory), "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "160", "LC_ALL": "C.UTF-8", "PS1": ""}
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=directory,
        env={**os.environ, **plain, **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )
    return done.stdout, done.returncode


def _split(said: str, mark: str) -> Iterator[tuple[str, int]]:
    *parts, _ = re.split(rf"\n{mark} (\d+)\n", said)
    yield from zip(parts[::2], map(int, parts[1::2]), strict=True)


def _trimmed(lines: list[str]) -> list[str]:
    return "\n".join(line.rstrip() for line in lines).strip("\n").splitlines()


def _as_pattern(line: str) -> str:
    if line.strip() == "…":
        return r"(?:.*\n)*?"
    return ".*?".join(re.escape(part) for part in " ".join(line.split()).split("…")) + r"\n"
