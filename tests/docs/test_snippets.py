"""Every command the documents show is typed, and says what they say it says."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.conftest import variables
from tests.docs.markdown import ROOT, SHELLS, blocks, documents
from tests.docs.shell import matches, run_block
from tests.e2e.server import WindlassServer
from tests.parts.dockerd import DockerEngine

ELSEWHERE = (
    "docs/guides/cli.md",
    "docs/guides/egpu.md",
    "docs/guides/image-sync.md",
    "examples/inference/",
    "examples/image-sync/",
)
"""Pages that are held to their word beside the code they are about."""


def ours() -> list[Path]:
    return [page for page in documents() if not str(page.relative_to(ROOT)).startswith(ELSEWHERE)]


def runs() -> list[Path]:
    return [page for page in ours() if any(block.mark == "run" for block in blocks(page))]


@pytest.mark.parametrize("page", runs(), ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_shows_is_what_happens(
    page: Path, serve: Callable[[str], WindlassServer], engine: DockerEngine, tmp_path: Path
) -> None:
    if page.parent.parent == ROOT / "examples":
        shutil.copytree(page.parent, tmp_path, dirs_exist_ok=True)
    tried = [block for block in blocks(page) if block.mark in ("run", "file")]
    for block in tried:
        is_docker = block.says == "docker"
        environ = variables(serve(block.says), engine if is_docker else None) if block.mark == "run" else {}
        run_block(block, directory=tmp_path, environ=environ)
    assert any(block.mark == "run" for block in tried)


def test_every_command_shown_is_run_or_says_why_not() -> None:
    unmarked = [str(block) for page in ours() for block in blocks(page) if block.language in SHELLS and not block.mark]
    assert unmarked == []


def test_every_mark_is_one_that_is_understood() -> None:
    marks = {(block.mark, block.says) for page in ours() for block in blocks(page) if block.mark == "run"}
    assert marks <= {("run", "docker"), ("run", "process")}


@pytest.mark.parametrize(
    ("expected", "said", "is_match"),
    [
        (["hello"], ["hello"], True),
        (["hello"], ["hello", "more"], False),
        (["a … c"], ["a  b   c"], True),
        (["a … c"], ["a b d"], False),
        (["first", "…"], ["first", "x", "y"], True),
        (["…", "last"], ["last"], True),
        (["…", "last"], ["x", "not it"], False),
        ([], [""], True),
        ([], ["something"], False),
    ],
)
def test_an_ellipsis_stands_for_anything_and_nothing_else_does(
    expected: list[str], said: list[str], is_match: bool
) -> None:
    assert matches(expected, said) is is_match
