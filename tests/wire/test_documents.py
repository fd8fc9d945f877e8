"""Bytes to plain data: what cannot be meant is refused, whatever the standard readers think of it."""

import json
import math
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.errors import Invalid, TooLarge
from windlass.wire.documents import DocumentLimits, read_json, read_one, read_yaml

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4)
    ),
    max_leaves=20,
)

REFUSED_JSON = {
    "nothing": (b"", "json"),
    "half a document": (b'{"a": ', "json"),
    "two documents": (b"1 2", "json"),
    "NaN": (b'{"cpu": NaN}', "number"),
    "Infinity": (b'{"cpu": Infinity}', "number"),
    "minus Infinity": (b'{"cpu": -Infinity}', "number"),
    "a number beyond any float": (b'{"cpu": 1e999}', "number"),
    "a number beyond any use": (b'{"cpu": 1e-999}', "number"),
    "ten to the four hundredth": (b'{"cpu": 1' + b"0" * 400 + b"}", "number"),
    "five thousand digits": (b"9" * 5000, "number"),
    "an exponent beyond the decimal module": (b"1e99999999999999999999", "number"),
    "a key twice": (b'{"a": 1, "a": 2}', "duplicate-key"),
    "a key twice, deep inside": (b'{"x": [{"a": 1, "b": 2, "a": 1}]}', "duplicate-key"),
    "a lone high surrogate": (b'{"a": "\\ud800"}', "text"),
    "a lone low surrogate in a key": (b'{"\\udc00": 1}', "text"),
    "surrogates as bytes": (b'{"a": "\xed\xa0\x80"}', "json"),
    "bytes that are no UTF-8": (b'"\xff"', "json"),
    "a byte order mark": (b'\xef\xbb\xbf{"a": 1}', "json"),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), "json"),
    "a raw newline in a text": (b'"a\nb"', "json"),
    "a comment": (b"{/* hello */}", "json"),
    "33 levels of lists": (b"[" * 33 + b"]" * 33, "depth"),
    "a hundred thousand levels": (b"[" * 100_000, "depth"),
    "a hundred thousand levels of mappings": (b'{"a":' * 100_000, "depth"),
}


@pytest.mark.parametrize("case", REFUSED_JSON)
def test_json_that_cannot_be_meant_is_refused(case: str) -> None:
    raw, code = REFUSED_JSON[case]
    with pytest.raises(Invalid) as refusal:
        read_json(raw)
    assert refusal.value.code == code


READ_JSON = {
    "an escaped pair is one character": (b'"\\ud83d\\ude00"', "😀"),
    "a fraction is exact": (b"0.1", Decimal("0.1")),
    "an exponent is a fraction": (b"1e3", Decimal(1000)),
    "32 levels": (b"[" * 32 + b"]" * 32, json.loads("[" * 32 + "]" * 32)),
    "many brackets in a flat document": (b"[" + b"[]," * 100 + b"[]]", [[]] * 101),
    "a bracket in a text": (b'"' + b"[" * 100 + b'"', "[" * 100),
    "an empty mapping": (b" {} ", {}),
}


@pytest.mark.parametrize("case", READ_JSON)
def test_json_is_read_as_it_is(case: str) -> None:
    raw, value = READ_JSON[case]
    assert read_json(raw) == value


@given(st.dictionaries(st.sampled_from(["a", "b:", "c"]), PLAIN, min_size=1, max_size=3), st.data())
def test_a_key_given_twice_is_refused_wherever_it_is_and_whatever_else_is_there(
    value: Any, data: st.DataObject
) -> None:
    key = data.draw(st.sampled_from(sorted(value)))
    twice = f"{json.dumps(value, ensure_ascii=False)[:-1]}, {json.dumps(key)}: {json.dumps(value[key])}}}"
    with pytest.raises(Invalid) as refusal:
        read_json(f"[{twice}]".encode())
    assert refusal.value.code == "duplicate-key"


@given(PLAIN)
def test_any_plain_json_is_read_back_the_same(value: Any) -> None:
    assert read_json(json.dumps(value).encode()) == value


@given(st.binary(max_size=200))
def test_no_bytes_make_the_json_reader_fail_in_another_way(raw: bytes) -> None:
    with suppress(Invalid):
        assert read_json(raw) != b""


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_fraction_is_never_rounded(number: float) -> None:
    text = repr(number)
    if "e" in text and abs(math.log10(abs(number))) > 40:
        return
    assert read_json(text.encode()) == Decimal(text)


def test_a_position_is_named_when_there_is_one() -> None:
    with pytest.raises(Invalid, match="line 2, column 8"):
        read_json(b'{\n  "a": x}')


def test_a_document_past_its_size_is_too_large() -> None:
    with pytest.raises(TooLarge):
        read_json(b'"' + b"a" * 100 + b'"', limits=DocumentLimits(bytes_max=100))
    with pytest.raises(TooLarge):
        read_yaml(b"a" * 101, limits=DocumentLimits(bytes_max=100))


READ_YAML = {
    "no is a text": ("a: no", {"a": "no"}),
    "yes, on and off are texts": ("[yes, on, off, y, n]", ["yes", "on", "off", "y", "n"]),
    "true is true": ("[true, True, TRUE, false]", [True, True, True, False]),
    "a leading zero makes a text": ("[012, 0o14, 0x1f, 00]", ["012", "0o14", "0x1f", "00"]),
    "a time of day is a text": ("[1:30, 12:30:45]", ["1:30", "12:30:45"]),
    "a date is a text": ("2026-11-15", "2026-11-15"),
    "an underscore makes a text": ("1_000", "1_000"),
    "a number is a number": ("[0, -7, +7, 1.5, 1.5e3]", [0, -7, 7, Decimal("1.5"), Decimal(1500)]),
    "a quoted number is a text": ("['1', \"2\"]", ["1", "2"]),
    "an exponent without a point is a text": ("1e5", "1e5"),
    "infinities and no-numbers are texts": ("[.inf, .nan, -.inf]", [".inf", ".nan", "-.inf"]),
    "nothing is nothing": ("{a: , b: ~, c: null}", {"a": None, "b": None, "c": None}),
    "a key is what is written": ("{on: 1, 8080: 2, true: 3}", {"on": 1, "8080": 2, "true": 3}),
    "a block text keeps its lines": ("a: |\n  x\n  y\n", {"a": "x\ny\n"}),
    "an alias is what it stands for": ("{a: &x [1, 2], b: *x}", {"a": [1, 2], "b": [1, 2]}),
    "a merge key is only a key": ("{'<<': 1}", {"<<": 1}),
    "a text tag is allowed": ("!!str 12", "12"),
}


@pytest.mark.parametrize("case", READ_YAML)
def test_yaml_says_what_a_reader_would_think(case: str) -> None:
    text, value = READ_YAML[case]
    assert read_yaml(text.encode()) == [value]


def _bomb() -> bytes:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    return "\n".join(lines).encode()


REFUSED_YAML = {
    "a python object": (b"!!python/object/apply:os.system ['id']", Invalid),
    "a python name": (b"!!python/name:os.system", Invalid),
    "an own tag": (b"!mine {a: 1}", Invalid),
    "a binary tag": (b"!!binary aGVsbG8=", Invalid),
    "a set tag": (b"!!set {a, b}", Invalid),
    "a key twice": (b"{a: 1, a: 2}", Invalid),
    "a key twice, differently written": (b"{a: 1, 'a': 2}", Invalid),
    "a mapping as a key": (b"{{a: 1}: 2}", Invalid),
    "a list as a key": (b"? [a]\n: 1", Invalid),
    "an alias to nothing": (b"a: *x", Invalid),
    "an alias to itself": (b"&x [*x]", Invalid),
    "an alias across documents": (b"&x a\n---\n*x", Invalid),
    "half a list": (b"[1, 2", Invalid),
    "a tab as indentation": (b"a:\n\tb: 1", Invalid),
    "a control character": (b"a: \x01", Invalid),
    "bytes that are no UTF-8": (b"a: \xff", Invalid),
    "deep nesting": (b"[" * 5000, Invalid),
    "a billion laughs": (_bomb(), TooLarge),
    "an unknown directive version": (b"%YAML 3.0\n---\na", Invalid),
}


@pytest.mark.parametrize("case", REFUSED_YAML)
def test_yaml_that_cannot_be_meant_is_refused(case: str) -> None:
    raw, kind = REFUSED_YAML[case]
    with pytest.raises(kind):
        read_yaml(raw)


def test_many_documents_are_read_and_empty_ones_left_out() -> None:
    assert read_yaml(b"---\na: 1\n---\n---\nb: 2\n...\n") == [{"a": 1}, {"b": 2}]


def test_where_one_document_is_meant_two_are_refused() -> None:
    with pytest.raises(Invalid, match="found 2"):
        read_one(b"a\n---\nb", "application/yaml")


@given(st.text(max_size=200))
def test_no_text_makes_the_yaml_reader_fail_in_another_way(text: str) -> None:
    with suppress(Invalid, TooLarge):
        assert isinstance(read_yaml(text.encode("utf-8", "surrogatepass")), list)


@given(PLAIN)
def test_json_read_as_yaml_is_the_same(value: Any) -> None:
    text = json.dumps(value)
    try:
        read = read_yaml(text.encode())
    except Invalid:
        return  # YAML has its own rules for texts with control characters and for very long keys
    assert read == ([value] if value is not None else [])
