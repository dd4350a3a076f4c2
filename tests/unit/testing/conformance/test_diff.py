"""What the conformance suites say of values that should be equal."""

from __future__ import annotations

from ipaddress import ip_address

import pytest
from attrs import evolve, field, frozen

from netfw.testing.conformance.common.diff import describe_difference


@frozen(kw_only=True)
class Plug:
    mtu: int = 1500
    addresses: tuple[object, ...] = (ip_address("10.0.0.1"), ip_address("10.0.0.2"))


@frozen(kw_only=True)
class Value:
    name: str = "a"
    plug: Plug = Plug()
    tags: frozenset[str] = frozenset({"one", "two"})
    noted: str = field(default="", eq=False)


VALUE = Value()


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        (evolve(VALUE, name="b", noted="now"), ["name should be a and is b"]),
        (evolve(VALUE, plug=Plug(mtu=1400)), ["plug.mtu should be 1500 and is 1400"]),
        (
            evolve(VALUE, tags=frozenset({"two", "three"})),
            ["tags lacks one", "tags has, and should not, three"],
        ),
        (
            evolve(VALUE, plug=Plug(addresses=(ip_address("10.0.0.1"), ip_address("10.0.0.9")))),
            ["plug.addresses[1] should be 10.0.0.2 and is 10.0.0.9"],
        ),
    ],
)
def test_only_what_differs_is_shown(found: Value, lines: list[str]) -> None:
    message, *rest = describe_difference(VALUE, found).splitlines()
    assert message == "is not as it should be:"
    assert [line.strip() for line in rest] == lines


@pytest.mark.parametrize("found", [None, Plug(), 7])
def test_what_has_not_the_same_parts_is_shown_whole(found: object) -> None:
    shown = "gone" if found is None else found
    assert describe_difference(VALUE, found) == f"should be\n  {VALUE}\nand is\n  {shown}"
