"""What holds for every body and every value, found by trying many."""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from netfw.errors import InvalidInput
from netfw.model import Kind, Resource, kind_of
from netfw.model.wire import CODECS, parse, render
from netfw.testing.strategies import resources

EVERY_KIND = pytest.mark.parametrize("kind", list(Kind))

EXAMPLES = os.environ.get("NETFW_EXAMPLES")
"""How many to try of each kind, drawn at random; without it a few, and the same ones each time."""

sampled = settings(
    max_examples=int(EXAMPLES or 8),
    derandomize=EXAMPLES is None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)

CONTROLS = "\x00\n\r\t\x1b\x7f\x80\x85\x9f\u2028\u2029\ud800\udfff"

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.just(10**4000)
    | st.floats()
    | st.text(st.characters())
    | st.binary(max_size=3)
    | st.sampled_from(["tcp", "vlan", "10.0.0.1", "10.0.0.0/24", "::/0", "1:2", "IPv6"])
    | st.uuids().map(str),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["subnet_id", "ip_address", "type", "start", "network_id"]), inner
        )
    ),
    max_leaves=8,
)


def bodies(kind: Kind) -> st.SearchStrategy[dict[str, Any]]:
    """Draw objects with the right names and any values."""
    return st.dictionaries(st.sampled_from(CODECS[kind].names) | st.text(), anything, max_size=12)


def texts_within(body: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each text in *body*."""
    steps = body.items() if isinstance(body, dict) else enumerate(body)
    for step, value in steps:
        if isinstance(value, str):
            yield (*path, step)
        elif isinstance(value, dict | list):
            yield from texts_within(value, (*path, step))


def path_text(path: tuple[Any, ...]) -> str:
    """Return *path* as a fault names it."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            name = step if re.fullmatch("[A-Za-z0-9_:-]+", step) else repr(step)
            text += f".{name}" if text else name
    return text


def replaced(body: dict[str, Any], path: tuple[Any, ...], value: object) -> dict[str, Any]:
    """Return a copy of *body* with *value* at *path*."""
    changed = copy.deepcopy(body)
    place = changed
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return changed


def plain(value: object) -> bool:
    """Return whether *value* consists only of types that JSON has."""
    if type(value) is dict:
        return all(type(key) is str and plain(item) for key, item in value.items())
    if type(value) is list:
        return all(plain(item) for item in value)
    return value is None or type(value) in (str, int, bool)


@pytest.mark.spec("DRV-02")
@EVERY_KIND
@given(data=st.data())
@sampled
def test_what_is_written_is_read_back_as_the_same_value(kind: Kind, data: st.DataObject) -> None:
    value = data.draw(resources(kind))
    body = render(value)
    assert plain(body)
    assert parse(kind, json.loads(json.dumps(body))) == value
    assert parse(kind, body) == value


def problems_of(kind: Kind, body: object) -> dict[str, str]:
    """Return the problems of *body*, none if it can be parsed and rendered again."""
    try:
        value = parse(kind, body)
    except InvalidInput as exc:
        return exc.problems or {"": "no reason given"}
    assert parse(kind, render(value)) == value
    return {}


@EVERY_KIND
@given(data=st.data())
@sampled
def test_any_object_is_read_or_refused_by_path(kind: Kind, data: st.DataObject) -> None:
    for path, text in problems_of(kind, data.draw(bodies(kind))).items():
        assert path
        assert text
        assert (path + text).isprintable()


@EVERY_KIND
@given(data=st.data())
@sampled
def test_a_good_body_with_one_thing_replaced_is_refused_for_that_thing(
    kind: Kind, data: st.DataObject
) -> None:
    body = render(data.draw(resources(kind)))
    name = data.draw(st.sampled_from(sorted(body)))
    problems = problems_of(kind, body | {name: data.draw(anything)})
    assert not problems or any(name in fault for item in problems.items() for fault in item)


@EVERY_KIND
@given(body=anything)
@sampled
def test_anything_at_all_is_refused_in_order(kind: Kind, body: object) -> None:
    with pytest.raises(InvalidInput):
        parse(kind, body)


@pytest.mark.spec("DHCP-48", "FW-12")
@EVERY_KIND
@given(data=st.data())
@sampled
def test_a_control_character_is_refused_in_every_text(kind: Kind, data: st.DataObject) -> None:
    body = render(data.draw(resources(kind)))
    control = data.draw(st.sampled_from(CONTROLS))
    path = data.draw(st.sampled_from(list(texts_within(body))))
    text = body
    for step in path:
        text = text[step]
    at = data.draw(st.integers(0, len(text)))
    with pytest.raises(InvalidInput) as caught:
        parse(kind, replaced(body, path, text[:at] + control + text[at:]))
    assert path_text(path) in caught.value.problems
    assert not set(CONTROLS) & set(str(caught.value))


@EVERY_KIND
@given(data=st.data())
@sampled
def test_every_wrong_attribute_is_named_at_once(kind: Kind, data: st.DataObject) -> None:
    body = render(data.draw(resources(kind)))
    names = data.draw(st.sets(st.sampled_from(sorted(body)), min_size=1))
    wrong = {name: object() for name in names}
    with pytest.raises(InvalidInput) as caught:
        parse(kind, body | wrong)
    assert set(caught.value.problems) == names


@EVERY_KIND
@given(data=st.data())
@sampled
def test_unknown_attributes_are_named_whatever_they_are(kind: Kind, data: st.DataObject) -> None:
    body = render(data.draw(resources(kind)))
    strange = data.draw(st.text(st.characters(), max_size=10).filter(lambda name: name not in body))
    with pytest.raises(InvalidInput) as caught:
        parse(kind, {**body, strange: 1} if strange not in CODECS[kind].names else {"": 1})
    assert any("unknown attribute" in text for text in caught.value.problems.values())


@given(value=resources())
@sampled
def test_values_can_be_kept_in_sets(value: Resource) -> None:
    assert parse(kind_of(value), render(value)) in {value}
