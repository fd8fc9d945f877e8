"""What goes up: which files, in what form, and what happens when they change meanwhile."""

import io
import os
import tarfile
from pathlib import Path

import pytest

from windlass.client.ignore import Ignore
from windlass.client.pack import Project, SingleFile, content_digest
from windlass.core.errors import Invalid, NotFound


def members_of(project: Project) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(b"".join(project.chunks()))) as tar:
        return {member.name: member for member in tar}


def test_a_project_is_its_files_directories_and_inner_links(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/main.py").write_text("print()")
    (tmp_path / "run.sh").write_text("#!")
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "empty").mkdir()
    (tmp_path / "src/inner").symlink_to("../run.sh")
    (tmp_path / "outer").symlink_to("/etc/passwd")
    (tmp_path / "sneaky").symlink_to("src/../../x")
    os.mkfifo(tmp_path / "pipe")
    project = Project(tmp_path)
    members = members_of(project)
    assert list(members) == ["empty", "run.sh", "src", "src/inner", "src/main.py"]
    assert members["run.sh"].mode == 0o755
    assert members["src/main.py"].mode == 0o644
    assert members["src/inner"].linkname == "../run.sh"
    assert project.skipped == ["outer", "pipe", "sneaky"]
    assert project.files == 2


def test_the_length_is_known_beforehand_and_both_readings_agree(tmp_path: Path) -> None:
    for size in (0, 1, 511, 512, 513, 300_000):
        (tmp_path / f"f{size}").write_bytes(os.urandom(size))
    (tmp_path / ("long-" + "n" * 200)).write_text("x")
    (tmp_path / "ünïcode").write_text("x")
    project = Project(tmp_path)
    assert len(b"".join(project.chunks())) == project.length
    assert project.digest() == project.digest()
    assert "ünïcode" in members_of(project)


def test_a_file_that_shrinks_or_grows_meanwhile_is_caught(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("12345")
    project = Project(tmp_path)
    for content in ("123", "1234567"):
        (tmp_path / "log").write_text(content)
        with pytest.raises(Invalid, match="log changed while it was being read"):
            project.digest()


def test_a_directory_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="is not a directory"):
        Project(tmp_path / "absent")
    with pytest.raises(NotFound, match="there is no file"):
        SingleFile(tmp_path / "absent")


def test_the_digest_header_is_that_of_the_rfc() -> None:
    assert content_digest("ab" * 32) == "sha-256=:q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6s=:"


@pytest.mark.parametrize(
    ("rules", "path", "is_directory", "expected"),
    [
        ("", "a/.git", True, True),
        ("", "__pycache__", True, True),
        ("", "main.py", False, False),
        ("*.log", "deep/down/x.log", False, True),
        ("*.log", "x.logs", False, False),
        ("/top", "top", False, True),
        ("/top", "sub/top", False, False),
        ("data/", "data", True, True),
        ("data/", "data", False, False),
        ("a/**/z", "a/b/c/z", False, True),
        ("a/**/z", "a/z", False, True),
        ("a/**", "a/b/c", False, True),
        ("*.log\n!keep.log", "keep.log", False, False),
        ("# *.py\n\n", "x.py", False, False),
        ("file?.txt", "file1.txt", False, True),
        ("a.c", "abc", False, False),
        ("!.git/", ".git", True, False),
    ],
)
def test_the_ignore_file_speaks_the_usual_language(rules: str, path: str, is_directory: bool, expected: bool) -> None:
    assert Ignore(rules.splitlines()).covers(path, is_directory=is_directory) is expected


def test_an_ignored_directory_is_not_entered(tmp_path: Path) -> None:
    (tmp_path / ".windlassignore").write_text("secret/\n")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/key").write_text("x")
    (tmp_path / "main.py").write_text("x")
    assert list(members_of(Project(tmp_path))) == ["main.py"]
