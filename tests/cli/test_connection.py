"""Where the server is and who we are: flags win over the environment, the environment over what `windlass up` wrote."""

import json
from pathlib import Path
from typing import Any

import pytest

from windlass.client.connection import Connection, default_data_dir, find
from windlass.core.errors import Denied, Invalid


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "token").write_text("from-up\n")
    (tmp_path / "client.json").write_text(
        json.dumps({"url": "http://127.0.0.1:9999", "token_file": str(tmp_path / "token"), "newer": 1})
    )
    return {"WINDLASS_DATA_DIR": str(tmp_path)}


def test_what_up_wrote_is_found(environ: dict[str, str]) -> None:
    assert find(environ) == Connection(url="http://127.0.0.1:9999", token="from-up")


def test_the_environment_wins_over_the_file_and_flags_over_both(environ: dict[str, str]) -> None:
    environ |= {"WINDLASS_URL": "http://env:1/", "WINDLASS_TOKEN": "env"}
    assert find(environ) == Connection(url="http://env:1", token="env")
    assert find(environ, url="http://flag:2", token="flag") == Connection(url="http://flag:2", token="flag")


def test_the_token_of_this_machine_is_never_sent_elsewhere(environ: dict[str, str]) -> None:
    assert find(environ, url="http://elsewhere:1").token == ""
    assert find(environ | {"WINDLASS_URL": "http://elsewhere:1"}).token == ""
    assert find(environ, url="http://127.0.0.1:9999/").token == "from-up"


def test_without_anything_the_usual_address_is_tried(tmp_path: Path) -> None:
    assert find({"WINDLASS_DATA_DIR": str(tmp_path)}) == Connection(url="http://127.0.0.1:8080", token="")


def test_a_token_file_that_cannot_be_read_is_no_token(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "token").unlink()
    assert find(environ).token == ""


def test_a_damaged_context_says_what_mends_it(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "client.json").write_text("{")
    with pytest.raises(Invalid, match="is damaged"):
        find(environ)


@pytest.mark.parametrize("name", ["client.json", "token"])
def test_a_file_that_may_not_be_read_is_named(environ: dict[str, str], name: str, monkeypatch: Any) -> None:
    """The superuser may read everything, so the refusal is made here and not by a mode."""

    def refusing(read: Any) -> Any:
        def refused(path: Path, *args: Any) -> Any:
            if path.name == name:
                raise PermissionError(13, "Permission denied", str(path))
            return read(path, *args)

        return refused

    monkeypatch.setattr(Path, "read_bytes", refusing(Path.read_bytes))
    monkeypatch.setattr(Path, "read_text", refusing(Path.read_text))
    with pytest.raises(Denied, match=f"{name} cannot be read: permission denied"):
        find(environ)
    assert find(environ, url="http://flag:2", token="flag") == Connection(url="http://flag:2", token="flag")


def test_the_data_directory_follows_the_desktop_rules() -> None:
    assert default_data_dir({"HOME": "/h"}) == Path("/h/.local/share/windlass")
    assert default_data_dir({"HOME": "/h", "XDG_DATA_HOME": "/x"}) == Path("/x/windlass")
    assert default_data_dir({"HOME": "/h", "XDG_DATA_HOME": "/x", "WINDLASS_DATA_DIR": "/d"}) == Path("/d")
