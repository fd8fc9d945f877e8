"""Names match their grammar whole, in ASCII."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.wire import names, urls

HOSTILE = [
    "", " ", "-a", "a-", "A", "a_b", "a.b", "a/b", "../a", "a" * 64, "a\n", "\na", "a\0", "ａ", "é", "a b", "$(id)", "`id`",
    ";ls", "--help", "a\r\n", "\u202ea", "a%2e", "😀",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_no_dns_label_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected 1 to 63"):
        names.read_dns_label(text)


@pytest.mark.parametrize("text", ["a", "0", "a-b", "a" * 63, "train-2026"])
def test_a_dns_label_passes(text: str) -> None:
    assert names.read_dns_label(text) == text


@pytest.mark.parametrize(
    "text",
    ["busybox", "busybox:1.36", "a/b/c@sha256:" + "0" * 64, "localhost:5000/x", "ghcr.io/a/b:v1", "[::1]:5000/x"],
)
def test_an_image_name_passes_as_written(text: str) -> None:
    assert names.read_image(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-v",
        "--privileged",
        "a b",
        "A",
        "a:",
        "a:b:c",
        "a@sha256:0",
        "a;id",
        "$(id)",
        "a\n",
        "../x",
        "a//b",
        "x" * 600,
    ],
)
def test_what_is_no_image_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an image name"):
        names.read_image(text)


@pytest.mark.parametrize("key", ["", "a b", "1A", "A=1", "A\nB", "é", "A\0", "-A", "a" * 300])
def test_what_is_no_variable_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="is not a name"):
        names.read_env({key: "x"})


def test_a_variable_may_hold_anything_but_nul() -> None:
    assert names.read_env({"A": "x\ny=z é 😀"}) == {"A": "x\ny=z é 😀"}
    with pytest.raises(ValueError, match="NUL"):
        names.read_env({"A": "x\0"})


@pytest.mark.parametrize("character", ["x", "😀"])
def test_a_variable_that_the_kernel_would_not_take_is_refused_by_its_name(character: str) -> None:
    most = (128 * 1024 - len("BIG=\0")) // len(character.encode()) * character
    assert names.read_env({"BIG": most}) == {"BIG": most}
    with pytest.raises(ValueError, match=r"^the value of “BIG” is too long: .* at most 131070 bytes$"):
        names.read_env({"SMALL": "x", "BIG": most + character})


def test_all_that_is_wrong_with_variables_and_labels_is_said_at_once() -> None:
    with pytest.raises(ValueError, match=r"“1A” is not a name.*; the value of “B” holds a NUL") as refused:
        names.read_env({"1A": "x", "B": "\0", "C": "fine"})
    assert "C" not in str(refused.value)
    with pytest.raises(ValueError, match=r"“a b” is not .*; “windlass.dev/x”: .* system's own; the value of “c”"):
        names.read_labels({"a b": "", "windlass.dev/x": "", "c": "d e"})
    with pytest.raises(ValueError, match=r"; and 981 more$"):
        names.read_env({f"{n}": "" for n in range(1001)})


@pytest.mark.parametrize(
    "labels",
    [
        {"": "a"},
        {"a b": "c"},
        {"a": "b c"},
        {"a": "x" * 64},
        {"windlass.dev/tenant": "b"},
        {"/a": "b"},
        {"a/": "b"},
        {"a": "-"},
    ],
)
def test_labels_that_are_none_are_refused(labels: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"“|system"):
        names.read_labels(labels)


@pytest.mark.parametrize("key", ["team", "example.com/team", "a.b-c_d"])
def test_labels_pass(key: str) -> None:
    assert names.read_labels({key: "v1.2_x"}) == {key: "v1.2_x"}


PATHS = {
    "input.jpg": "input.jpg", "/artifacts/input.jpg": "input.jpg", "/artifacts": "", "": "", "a/b/": "a/b", "ä/ö": "ä/ö",
    "/artifacts/": "",
}  # fmt: skip


@pytest.mark.parametrize("text", PATHS)
def test_a_path_lies_below_artifacts(text: str) -> None:
    assert names.read_artifact_path(text) == PATHS[text]


@pytest.mark.parametrize("text", ["a/b", "/artifacts/a/b"])
def test_a_file_lies_below_artifacts(text: str) -> None:
    assert names.read_artifact_file(text) == "a/b"


@pytest.mark.parametrize("text", ["", "/artifacts", "/artifacts/", "a/", "/artifacts/a/b/"])
def test_a_file_is_not_meant_by_what_can_only_be_a_directory(text: str) -> None:
    with pytest.raises(ValueError, match="the file's name"):
        names.read_artifact_file(text)


@pytest.mark.parametrize(
    "text",
    [
        "..", "../x", "a/../b", "/etc/passwd", "/artifactsx", "/", "//", "a//b", "./a", "a/.", "/artifacts/../etc", "a\0b",
        "a\nb", "x" * 1025, "a/" + "y" * 256,
    ],
)  # fmt: skip
def test_a_path_that_leads_elsewhere_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="path"):
        names.read_artifact_path(text)


@given(st.text(max_size=50))
def test_no_path_that_passes_climbs(text: str) -> None:
    try:
        path = names.read_artifact_path(text)
    except ValueError:
        return
    assert not path.startswith("/")
    assert all(part not in ("", ".", "..") for part in path.split("/") if path)


URLS = ["http://example.com/", "https://example.com:8443/a?b=c#d", "http://93.184.216.34/", "http://[2606:2800::1]/x",
        "https://a_b.example.com./", "http://xn--bcher-kva.example/"]  # fmt: skip
BAD_URLS = [
    "", "example.com", "ftp://example.com/", "file:///etc/passwd", "gopher://x/", "javascript:alert(1)", "http://", "http:///x",
    "http://user@example.com/", "http://user:pw@example.com/", "http://example.com@evil.com/", "http://2130706433/",
    "http://0x7f000001/", "http://0177.0.0.1/", "http://127.1/", "http://127.0.0.1.:80/", "http://1.2.3.4.5/", "http://[::1%25eth0]/",
    "http://[::ffff:127.0.0.1", "http://example.com:0/", "http://example.com:22/", "http://example.com:25/", "http://example.com:/",
    "http://example.com:99999/", "http://exa mple.com/", "http://example.com/\n", "http://example.com\\@evil.com/", "http://bücher.example/",
    "http://１２７.0.0.1/", "http://-a.example/", "http://a..b/", "http://" + "a" * 64 + ".example/", "http://x/" + "a" * 2048,
    "http://%31%32%37.0.0.1/", "http://[127.0.0.1]/", "http://0/", "dict://x:11211/", "http://example.com:80:80/",
]  # fmt: skip


@pytest.mark.parametrize("url", URLS)
def test_an_address_passes(url: str) -> None:
    assert urls.read_url(url) == url


@pytest.mark.parametrize("url", BAD_URLS)
def test_an_address_that_reads_in_two_ways_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        urls.read_url(url)
