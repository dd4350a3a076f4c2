"""Bytes become plain values, or an error with its line; nothing else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netfw.state.file.parse import SIZE, Parsed, line_at, lines_of, parse


def yaml(text: str) -> Parsed:
    return parse("t.yaml", text.encode())


def problem(parsed: Parsed) -> str:
    (error,) = parsed.errors
    return str(error)


def test_scalars_are_those_of_yaml_1_2_so_that_addresses_and_words_stay_text() -> None:
    text = "[12:34:56:00:00:01, no, on, 2030-01-31, 1.5, 0x10, 007, '1', 1, -3, true, null, ~]"
    assert yaml(text).value == [
        "12:34:56:00:00:01", "no", "on", "2030-01-31", "1.5", "0x10", "007", "1", 1, -3,
        True, None, None,
    ]  # fmt: skip


def test_aliases_are_taken() -> None:
    assert yaml("a: &x {b: [1]}\nc: *x\n").value == {"a": {"b": [1]}, "c": {"b": [1]}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "t.yaml: is empty"),
        (" \n\n", "t.yaml: is empty"),
        ("a: 1\nb: 2\na: 3", "t.yaml:3: a: is there twice"),
        ("a: [1, {b: 1, b: 2}]", "t.yaml:1: a[1].b: is there twice"),
        ("a: {b: c", "t.yaml:2: is no YAML"),
        ("a: 1\n  b: 2\n", "t.yaml:2: is no YAML"),
        ("a: \x01", "t.yaml: is no YAML"),
        ("a: 1\n---\nb: 2\n", "t.yaml:2: has a second document"),
        ("a: !!python/object/apply:os.system [id]", "is not taken"),
        ("!x a: 1", "is not taken"),
        ("a: *b", "t.yaml:1: *b refers to nothing before it"),
        ("a: &a [*a]", "t.yaml:1: a: *a refers to nothing before it"),
        ("x: &x {a: 1}\ny:\n  <<: *x\n", "t.yaml:3: y: merge keys"),
        ("? [1]\n: 2", "a key must be a text"),
        ("[" * 40, "is nested more than 32 deep"),
        ("[" * 100_000, "is nested more than 32 deep"),
    ],
)
def test_unsupported_content_is_reported_with_its_line(text: str, message: str) -> None:
    assert message in problem(yaml(text))


def test_a_bomb_of_aliases_is_refused_before_it_goes_off() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    assert "has more than 1000000 values" in problem(yaml("\n".join(lines)))


def test_a_file_that_is_too_large_is_not_read() -> None:
    assert "is larger than 16 MiB" in problem(parse("t.yaml", b"a" * (SIZE + 1)))


def test_what_is_no_utf_8_is_refused_and_a_byte_order_mark_is_not() -> None:
    assert "is not UTF-8 (byte 3)" in problem(parse("t.yaml", b"a: \xff"))
    assert parse("t.json", b"\xef\xbb\xbf{}").value == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1,\n "a": 2}', "the key 'a' is twice in one object"),
        ('{\n"a": ', "t.json:2: is no JSON: Expecting value"),
        (r'{"a": ["\ud800"]}', r"'\ud800' has half a character"),
        (r'{"\udfff": 1}', r"'\udfff' has half a character"),
        ('{"a": NaN}', "NaN is no number that JSON has"),
        ("1" * 5000, "is no JSON"),
        ("[" * 100_000, "is nested more than 32 deep"),
        ("[" * 40 + "]" * 40, "is nested more than 32 deep"),
    ],
)
def test_json_is_as_strict(text: str, message: str) -> None:
    assert message in problem(parse("t.json", text.encode()))


def test_every_path_has_a_line_and_what_has_none_that_of_what_is_around_it() -> None:
    lines = lines_of(b"ports:\n- name: a\n  fixed_ips:\n  - subnet: x\n    ip: 1\n- name: b\n")
    assert lines["ports"] == 1
    assert lines["ports[0].fixed_ips"] == 3
    assert lines["ports[0].fixed_ips[0].ip"] == 5
    assert line_at(lines, "ports[1].mac_address") == 6
    assert line_at(lines, "ports[0].fixed_ips[0].subnet_id.x[3]") == 4
    assert line_at(lines, "nowhere[1].x") is None


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=20,
)


@given(plain)
def test_json_comes_back_as_it_was(value: object) -> None:
    data = json.dumps(value).encode()
    assert parse("t.json", data) == Parsed(value=value)


@given(st.binary(max_size=300) | st.text("-:[]{}&*!#|>'\"?,a1 \n\t%@", max_size=80).map(str.encode))
def test_any_bytes_are_a_value_or_an_error(data: bytes) -> None:
    for name in ("t.yaml", "t.json"):
        parsed = parse(name, data)
        assert isinstance(parsed, Parsed)
    lines_of(data)
