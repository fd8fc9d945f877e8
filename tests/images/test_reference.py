"""The OCI reference grammar, the one door for names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.distribution import BadReference, parse_digest, parse_reference

DIGEST = "sha256:" + "a" * 64

GOOD = {
    "nginx": "docker.io/library/nginx:latest",
    "nginx:1.25": "docker.io/library/nginx:1.25",
    "team/app": "docker.io/team/app:latest",
    "index.docker.io/nginx:1": "docker.io/library/nginx:1",
    "localhost/app:1": "localhost/app:1",
    "127.0.0.1:5000/a/b_c/d--e:v1.2_x-y": "127.0.0.1:5000/a/b_c/d--e:v1.2_x-y",
    "[::1]:5000/app:1": "[::1]:5000/app:1",
    "registry.example.com/app": "registry.example.com/app:latest",
    f"registry.example.com/app@{DIGEST}": f"registry.example.com/app@{DIGEST}",
    f"registry.example.com/app:1@{DIGEST}": f"registry.example.com/app:1@{DIGEST}",
}

HOSTILE = (
    "",
    " ",
    "nginx ",
    "nginx\n",
    "nginx:1\n",
    "-oProxyCommand=x",
    "--help",
    "a;touch canary",
    "a$(touch canary)",
    "a`touch canary`",
    "a|b",
    "a&b",
    "a>b",
    "a'b",
    'a"b',
    "a\\b",
    "a b",
    "a\0b",
    "a\tb",
    "UPPER",
    "team/UPPER",
    "docker.io/UPPER:1",
    "a//b",
    "a/../b",
    "../etc/passwd",
    "/abs/path",
    "a:",
    "a:-x",
    "a:.x",
    "a:" + "x" * 129,
    "a@sha256:" + "a" * 63,
    "a@sha256:" + "A" * 64,
    "a@md5:" + "a" * 32,
    "a@",
    "nginx:1:2",
    "имя",
    "a\uff41",
    "a:\u0661",
    "http://host/a",
    "x" * 300,
    "h.io/" + "a/" * 5000 + "a",
)


@pytest.mark.parametrize(("text", "normal"), GOOD.items())
def test_a_reference_has_one_spelling_however_it_was_written(text: str, normal: str) -> None:
    assert str(parse_reference(text)) == normal
    assert parse_reference(normal) == parse_reference(text)


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_no_reference_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(BadReference) as refused:
        parse_reference(text)
    assert len(text.strip()) < 4 or text not in str(refused.value)


@given(st.text(max_size=80))
def test_whatever_passes_is_neither_an_option_nor_shell_syntax(text: str) -> None:
    try:
        name = str(parse_reference(text))
    except BadReference:
        return
    assert name.isascii()
    assert not name.startswith("-")
    assert not set(name) & set(" \t\n\r;&|<>$`'\"\\(){}*?!~#%^=,")


def test_the_familiar_form_leaves_the_default_domain_out() -> None:
    assert parse_reference("docker.io/library/nginx:1").familiar == "nginx:1"
    assert parse_reference("docker.io/team/app:1").familiar == "team/app:1"
    assert parse_reference("quay.io/team/app:1").familiar == "quay.io/team/app:1"


def test_a_bare_hexadecimal_id_is_a_sha256_digest() -> None:
    assert parse_digest("b" * 64) == "sha256:" + "b" * 64
    with pytest.raises(BadReference):
        parse_digest("$(id)")
