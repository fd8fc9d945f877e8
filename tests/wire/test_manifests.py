"""Manifests by their bytes: what is remembered reads as if it were judged anew, and nothing slips past the judge."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.errors import Invalid
from windlass.core.model.submission import Submission
from windlass.wire.documents import DocumentLimits, read_json
from windlass.wire.job import read_manifest
from windlass.wire.manifests import Manifests

LIMITS = DocumentLimits()
BASE: dict[str, Any] = {"apiVersion": "windlass.dev/v1", "kind": "Job", "spec": {"image": "busybox:1.36"}}

SECRET = {"secret": "kept", "key": "value"}
ASKED = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["Job", "EphemeralAccelerationJob", "Pod"]),
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "image": st.sampled_from(["busybox", "busybox:1", "", 1]),
                "command": st.one_of(
                    st.lists(st.sampled_from(["true", "spec", '"spec"', "a:b", "\\u0041", "", "a\0b", 1]), max_size=2),
                    st.sampled_from(["true -v", "'", None]),
                ),
                "env": st.sampled_from(
                    [{}, {"A": "1"}, {"A": "2", "B": ""}, {"A": 1}, {"1": "a"}, {"A": "\0"}, {"A": SECRET}, [], None]
                ),
                "secretEnv": st.sampled_from([{"A": SECRET}, {"C": SECRET}]),
                "model": st.just("resnet50"),
                "suspend": st.sampled_from([True, 1, "true"]),
                "resources": st.sampled_from([{"cpu": 1}, {"cpu": 1.5}, {"cpu": True}, {"cpu": "1"}, {}]),
                "unknown": st.just(1),
            },
        ),
    },
    optional={
        "metadata": st.fixed_dictionaries(
            {},
            optional={"name": st.sampled_from(["a", "b", "B"]), "labels": st.sampled_from([{}, {"a": "b"}, {"a": 1}])},
        ),
        "status": st.just({}),
    },
)


@given(st.lists(ASKED, min_size=1, max_size=6))
def test_a_reader_with_a_memory_says_what_one_without_would(documents: list[dict[str, Any]]) -> None:
    manifests = Manifests(runtime="container")
    for document in documents * 2:
        raw = json.dumps({"apiVersion": "windlass.dev/v1", **document}).encode()
        assert said(lambda raw=raw: manifests.read_json(raw, limits=LIMITS)) == said(lambda raw=raw: judged(raw))


@given(st.lists(ASKED, min_size=1, max_size=4))
def test_a_batch_is_what_its_items_are_one_by_one(documents: list[dict[str, Any]]) -> None:
    items = [{"apiVersion": "windlass.dev/v1", **document} for document in documents]
    alone = [said(lambda item=item: judged(json.dumps(item).encode())) for item in items]
    batch = said(lambda: read_batch({"items": items}))
    if all(isinstance(one, Submission) for one in alone):
        assert batch == alone
    else:
        assert batch == [
            (f"items[{number}].{field}", message)
            for number, one in enumerate(alone)
            if not isinstance(one, Submission)
            for field, message in one
        ]


TWICE = {
    "the spec": '{"apiVersion": "windlass.dev/v1", "kind": "Job", "spec": {"image": 1}, "spec": {"image": "busybox:1.36"}}',
    "the spec, the second in disguise": (
        '{"apiVersion": "windlass.dev/v1", "kind": "Job", "sp\\u0065c": 1, "spec": {"image": "busybox:1.36"}}'
    ),
    "the metadata": (
        '{"apiVersion": "windlass.dev/v1", "kind": "Job", "spec": {"image": "busybox:1.36"}, "metadata": 1, "metadata": {}}'
    ),
    "a field of the spec": '{"apiVersion": "windlass.dev/v1", "kind": "Job", "spec": {"image": 1, "image": "busybox:1.36"}}',
}


@pytest.mark.parametrize("what", TWICE)
def test_a_field_given_twice_is_refused_although_the_spec_is_known(what: str) -> None:
    manifests = Manifests(runtime="container")
    manifests.read_json(json.dumps(BASE).encode(), limits=LIMITS)
    with pytest.raises(Invalid) as alone:
        manifests.read_json(TWICE[what].encode(), limits=LIMITS)
    with pytest.raises(Invalid) as together:
        manifests.read_batch(f'{{"items": [{json.dumps(BASE)}, {TWICE[what]}]}}'.encode(), items_max=9, limits=LIMITS)
    assert alone.value.code == together.value.code == "duplicate-key"


def test_metadata_missing_in_one_item_does_not_hide_that_another_has_it_twice() -> None:
    with pytest.raises(Invalid) as refusal:
        read_batch(
            {"items": [BASE, BASE]}, after='"spec": {"image": "busybox:1.36"}', more=', "metadata": 1, "metadata": {}'
        )
    assert refusal.value.code == "duplicate-key"


def test_a_known_spec_may_not_be_nested_deeper_than_any_other() -> None:
    deep = '{"name": "a", "uid": ' + "[" * 31 + "]" * 31 + "}"
    raw = json.dumps({**BASE, "metadata": 0}).replace('"metadata": 0', f'"metadata": {deep}').encode()
    manifests = Manifests(runtime="container")
    manifests.read_json(json.dumps(BASE).encode(), limits=LIMITS)
    with pytest.raises(Invalid) as refusal:
        manifests.read_json(raw, limits=LIMITS)
    assert refusal.value.code == "depth"


def test_a_name_is_never_remembered_from_another_manifest() -> None:
    manifests = Manifests(runtime="container")
    asked = [{"labels": {"a": "b"}}, {"name": "one", "labels": {"a": "b"}}, {"labels": {"a": "b"}}, {"name": "two"}]
    read = [
        manifests.read_json(json.dumps({**BASE, "metadata": metadata}).encode(), limits=LIMITS) for metadata in asked
    ]
    assert [one.name for one in read] == ["", "one", "", "two"]


def test_what_stands_for_a_number_is_no_number() -> None:
    manifests = Manifests(runtime="container")
    for cpu in ("1.5", 1.5):
        raw = document({"resources": {"gpu": cpu}, "command": ["true"]})
        with pytest.raises(Invalid):
            manifests.read_json(raw, limits=LIMITS)
    assert manifests.read_json(document({"resources": {"gpu": 1}, "command": ["true"]}), limits=LIMITS)
    with pytest.raises(Invalid):
        manifests.read_json(document({"resources": {"gpu": "1"}, "command": ["false"]}), limits=LIMITS)


@pytest.mark.parametrize("runtime", ["container", "process"])
def test_jobs_that_differ_in_command_and_variables_are_judged_as_one_each_with_its_own(runtime: str) -> None:
    manifests = Manifests(runtime=runtime)
    read = [
        manifests.read_json(document(spec, runtime=runtime), limits=LIMITS)
        for spec in ({"command": ["a"]}, {"command": ["b", "c"], "env": {"A": "1"}}, {"command": ["d"], "env": {}})
    ]
    assert [(one.spec.command, one.spec.env) for one in read] == [
        (("a",), ()),
        (("b", "c"), (("A", "1"),)),
        (("d",), ()),
    ]


def test_what_is_remembered_is_bounded() -> None:
    manifests = Manifests(runtime="container")
    for number in range(3000):
        asked = {
            **BASE,
            "spec": {"image": f"busybox:{number}", "command": [f"{number}"]},
            "metadata": {"labels": {"n": str(number)}},
        }
        read = manifests.read_json(json.dumps(asked).encode(), limits=LIMITS)
        assert read.spec.image == f"busybox:{number}"
        assert read.labels == (("n", str(number)),)
    assert len(manifests) <= 3 * 1024


def judged(raw: bytes) -> Submission:
    return read_manifest(read_json(raw, limits=LIMITS), runtime="container")


def read_batch(batch: Any, *, after: str = "", more: str = "") -> list[Submission]:
    """`more` is written once into the document, behind the last `after`."""
    text = json.dumps(batch)
    head, mark, tail = text.rpartition(after) if after else (text, "", "")
    return Manifests(runtime="container").read_batch(f"{head}{mark}{more}{tail}".encode(), items_max=10, limits=LIMITS)


def said(read: Any) -> Any:
    """What was read, or every fault that was named."""
    try:
        return read()
    except Invalid as refusal:
        return [(fault.field, fault.message) for fault in refusal.faults]


def document(spec: dict[str, Any], *, runtime: str = "container") -> bytes:
    image = {"image": "busybox:1.36"} if runtime == "container" else {}
    return json.dumps({**BASE, "spec": {**image, **spec}}).encode()
