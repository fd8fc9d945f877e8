"""Values on their way in: typed without an echo, piped, or from a file; never on a command line, never printed."""

import base64
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Invoke
from tests.cli.person import at_a_stub
from tests.cli.stub import Stub

CANARY = "canary-5f1e"
SET: dict[str, Any] = {
    "name": "hub", "keys": ["value"], "version": 3, "updatedAt": "2026-11-15T12:00:00.000Z", "usedBy": ["train"], "usedByCount": 22,
}  # fmt: skip
LOGIN: dict[str, Any] = {
    "registry": "r.example.com:5000",
    "username": "ci",
    "version": 1,
    "updatedAt": "2026-11-15T12:00:00.000Z",
}


def sent(stub: Stub, path: str) -> Any:
    [request] = stub.requests(f"PUT {path}")
    return request.json


def b64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def test_a_typed_value_is_asked_for_twice_and_never_shown(stub: Stub, tmp_path: Path) -> None:
    stub.script("PUT /api/v1/secrets/hub", (200, SET))
    with at_a_stub(stub, tmp_path, "secrets", "set", "hub") as person:
        person.reads("Value")
        person.types(f"{CANARY}\n")
        person.reads("Repeat")
        person.types(f"{CANARY}\n")
        person.reads("secret/hub set, version 3")
        assert person.waits() == 0
    assert CANARY not in person.seen
    assert sent(stub, "/api/v1/secrets/hub") == {"data": {"value": b64(CANARY.encode())}}


def test_a_typed_password_is_asked_for_once_and_never_shown(stub: Stub, tmp_path: Path) -> None:
    stub.script("PUT /api/v1/registries/r.example.com:5000", (200, LOGIN))
    with at_a_stub(stub, tmp_path, "registries", "login", "r.example.com:5000", "-u", "ci") as person:
        person.reads("Password")
        person.types(f"{CANARY}\n")
        person.reads("registry/r.example.com:5000 login of ci kept")
        assert person.waits() == 0
    assert CANARY not in person.seen


@pytest.mark.parametrize(
    ("flags", "piped", "data"),
    [
        ((), "v\n", {"value": b"v"}),
        ((), "v\r\n", {"value": b"v"}),
        ((), "v\n\n", {"value": b"v\n"}),
        (("--key", "token"), "v", {"token": b"v"}),
        (("--from-file", "-"), "v\n", {"value": b"v\n"}),
        (("--from-file", "k=-"), "v\n", {"k": b"v\n"}),
        (("--from-file", "a={0}", "--from-file", "b={0}"), "", {"a": b"\0\xff\n", "b": b"\0\xff\n"}),
        (("--from-file", "{0}"), "", {"value": b"\0\xff\n"}),
    ],
)
def test_piped_values_lose_one_lines_end_and_files_nothing(
    stub: Stub, windlass: Invoke, tmp_path: Path, flags: tuple[str, ...], piped: str, data: dict[str, bytes]
) -> None:
    (tmp_path / "raw").write_bytes(b"\0\xff\n")
    stub.script("PUT /api/v1/secrets/hub", (200, SET))
    result = windlass("secrets", "set", "hub", *(flag.format(tmp_path / "raw") for flag in flags), stdin=piped)
    assert (result.exit_code, result.output) == (0, "secret/hub set, version 3\n")
    assert sent(stub, "/api/v1/secrets/hub") == {"data": {key: b64(value) for key, value in data.items()}}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("secrets", "set", "hub"), "no value came"),
        (("secrets", "set", "hub", "the-value"), "unexpected extra argument"),
        (("secrets", "set", "hub", "--key", "k", "--from-file", "f"), "--key goes with"),
        (("secrets", "set", "hub", "--from-file", "no-such-file"), "No such file"),
        (("secrets", "set", "hub", "--from-file", "k=-", "--from-file", "k=-"), "given twice"),
        (("registries", "login", "r.example.com"), "--username"),
        (("registries", "login", "r.example.com", "-u", "ci"), "no password came"),
        (("registries", "login", "r.example.com", "-u", "ci", "-p", "word"), "No such option"),
        (("run", "--secret", "TOKEN", "img", "--", "true"), "expected NAME=SECRET"),
        (("run", "--secret", "TOKEN=hub:", "img", "--", "true"), "expected NAME=SECRET"),
        (("run", "-e", "TOKEN=1", "--secret", "TOKEN=hub", "img", "--", "true"), "TOKEN is given both"),
        (("get", "job", ""), "is not a name"),
    ],
)
def test_what_cannot_be_meant_is_said_and_nothing_is_sent(
    stub: Stub, windlass: Invoke, words: tuple[str, ...], said: str
) -> None:
    result = windlass(*words, stdin="")
    assert result.exit_code != 0
    assert said in result.output
    assert stub.asked == []


def test_lists_show_names_and_who_uses_them(stub: Stub, windlass: Invoke) -> None:
    stub.script("GET /api/v1/secrets", (200, {"items": [SET]}))
    shown = windlass("secrets", "list").output.splitlines()
    assert shown[0].split() == ["NAME", "KEYS", "VERSION", "UPDATED", "USED", "BY"]
    assert shown[1].startswith("hub")
    assert shown[1].endswith("train and 21 more")
    stub.script("GET /api/v1/registries", (200, {"items": [LOGIN]}))
    assert windlass("registries", "list", "-o", "name").output == "r.example.com:5000\n"


@pytest.mark.parametrize("kind", ["secrets", "registries"])
def test_an_empty_list_says_so_beside_the_output(stub: Stub, windlass: Invoke, kind: str) -> None:
    stub.script(f"GET /api/v1/{kind}", (200, {"items": []}))
    result = windlass(kind, "list")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "none\n")


def test_a_job_that_is_over_is_told_its_state_once(stub: Stub, windlass: Invoke) -> None:
    over = {
        "name": "a",
        "uid": "u",
        "state": "FAILED",
        "says": "it is over: FAILED (ExitCode)",
        "gates": [],
        "advice": [],
    }
    stub.script("GET /api/v1/jobs/a/why", (200, over))
    assert windlass("why", "a").stdout == "a: it is over: FAILED (ExitCode)\n"


def test_run_sends_where_values_come_from(stub: Stub, windlass: Invoke) -> None:
    flags = ("-e", "A=1", "--secret", "T=hub", "--secret", "U=hub:user", "--secret-file", "conf=app:config")
    assert windlass("run", "--detach", *flags, "img", "--", "true").exit_code == 0
    [create] = stub.requests("POST /api/v1/jobs")
    assert create.json["spec"]["env"] == {"A": "1", "T": {"secret": "hub"}, "U": {"secret": "hub", "key": "user"}}
    assert create.json["spec"]["secretFiles"] == {"conf": {"secret": "app", "key": "config"}}
