"""The documents as tests see them: fenced blocks with the marker before them, links, headings, tables.

A block that a shell would take says in a comment on the line before it how it is tested:

    <!-- run: docker -->         against a server on a container engine that has busybox
    <!-- run: process -->        against a server that runs plain processes
    <!-- shown only: why -->     not run
    <!-- file: job.yaml -->      not run but written to that file, for the blocks after it
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHELLS = frozenset({"console", "sh"})
_MARK = re.compile(r"<!-- (run|shown only|file): (.+?) -->")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^()\s]+)\)")
_FENCE = re.compile(r"^ {0,3}```(\w*)\s*$")


@dataclass(frozen=True)
class Block:
    document: Path
    line: int
    language: str
    text: str
    mark: str = ""
    """`run`, `shown only`, `file`, or nothing."""
    says: str = ""

    def __str__(self) -> str:
        return f"{os.path.relpath(self.document, ROOT)}:{self.line}"


def documents() -> list[Path]:
    """Every page that lives with the code."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    return sorted([*pages, *(ROOT / "changelog.d").glob("*.md")])


def blocks(document: Path) -> list[Block]:
    found: list[Block] = []
    before = ""
    lines = iter(enumerate(document.read_text().splitlines(), 1))
    for number, line in lines:
        fence = _FENCE.match(line)
        if fence is None:
            before = line.strip() or before
            continue
        body: list[str] = []
        for _, inner in lines:
            if inner.strip() == "```":
                break
            body.append(inner)
        mark = _MARK.fullmatch(before)
        text = "\n".join(body) + "\n"
        kind, says = (mark[1], mark[2]) if mark else ("", "")
        found.append(Block(document, number, fence[1], text, kind, says))
        before = ""
    return found


def prose(document: Path) -> str:
    """The page without its fenced blocks."""
    kept, is_inside = [], False
    for line in document.read_text().splitlines():
        if line.lstrip().startswith("```"):
            is_inside = not is_inside
        elif not is_inside:
            kept.append(line)
    return "\n".join(kept)


def links(document: Path) -> list[str]:
    return _LINK.findall(re.sub(r"`[^`]*`", lambda found: found[0].replace("](", "] ("), prose(document)))


def anchors(document: Path) -> set[str]:
    """What a heading is reached by, as the usual readers make it."""
    found = set()
    for line in prose(document).splitlines():
        if line.startswith("#"):
            words = re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower())
            found.add(words.replace(" ", "-"))
    return found


def rows(document: Path, first: str) -> list[list[str]]:
    """The cells of the table whose heading begins with the cell `first`."""
    lines = document.read_text().splitlines()
    heads = [n for n, line in enumerate(lines) if line.startswith(f"| {first} |")]
    assert heads, f"{document.name} has no table that begins with “{first}”"
    found = []
    for line in lines[heads[0] + 2 :]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))])
    return found
