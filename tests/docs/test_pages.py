"""The pages hold together: links lead somewhere, nothing of one machine is in them, the words are those of the glossary."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, anchors, documents, links, rows

PAGES = documents()
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
PICTURE_BYTES_MAX = 150_000


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_link_leads_somewhere(page: Path) -> None:
    lost = []
    for link in links(page):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            lost.append(link)
    assert lost == []


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_nothing_of_the_writers_machine_is_in_a_page(page: Path) -> None:
    text = page.read_text()
    assert str(ROOT) not in text
    assert not re.search(r"(?<![\w.$~/])/(?:home|root|Users|tmp|private)/\w", text)
    assert not re.search(r"[\w-]+\.(?:internal|corp|lan)\b", text)


def test_every_page_of_the_guides_is_reached_from_the_readme() -> None:
    reached, pending = set(), [ROOT / "README.md"]
    while pending:
        page = pending.pop()
        if page in reached or not page.exists():
            continue
        reached.add(page)
        pending += [
            (page.parent / link.partition("#")[0]).resolve()
            for link in links(page)
            if link.partition("#")[0].endswith(".md")
        ]
    left = {page for page in PAGES if page.parent.name in ("guides", "decisions")} - reached
    assert {page.name for page in left} == set()


def test_every_decision_tells_its_context_consequences_and_roads_not_taken() -> None:
    decisions = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
    assert [int(page.name[:4]) for page in decisions] == list(range(1, len(decisions) + 1))
    for page in decisions:
        assert {"context", "decision", "consequences", "roads-not-taken"} <= anchors(page), page.name


def test_the_words_of_the_glossary_name_files_that_are_there() -> None:
    nouns = rows(ROOT / "GLOSSARY.md", "word")
    assert {"**tenant**", "**job**", "**run**", "**node**", "**volume**"} <= {row[0] for row in nouns}


def test_the_pictures_are_small_and_the_drawing_is_sound() -> None:
    pictures = list((ROOT / "docs" / "img").iterdir())
    assert pictures
    assert all(picture.stat().st_size <= PICTURE_BYTES_MAX for picture in pictures)
    drawing = ElementTree.parse(ROOT / "docs" / "img" / "flow.svg")
    assert "prefers-color-scheme: dark" in "".join(drawing.getroot().itertext())


def test_the_licence_is_the_one_the_package_names() -> None:
    assert "Apache License" in (ROOT / "LICENSE").read_text()
    assert 'license = "Apache-2.0"' in (ROOT / "pyproject.toml").read_text()


def test_every_fragment_of_the_changelog_is_taken_up() -> None:
    fragments = list((ROOT / "changelog.d").glob("*"))
    assert all(re.fullmatch(r"\d+\.(added|changed|fixed|removed|security)\.md", path.name) for path in fragments)
    done = subprocess.run([sys.executable, ROOT / "tools" / "changelog", "--draft"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert all(path.read_text().strip() in done.stdout for path in fragments)
