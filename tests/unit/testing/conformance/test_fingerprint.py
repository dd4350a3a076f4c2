"""A changed argument is seen, whichever field of it changed."""

from __future__ import annotations

from attrs import define, field

from netfw.testing.conformance.watch.fingerprint import fingerprint


@define
class Observation:
    """A value with a private field."""

    ports: dict[str, int] = field(factory=dict)
    groups: set[str] = field(factory=set)
    _zones: dict[str, int] | None = None

    def read_zones(self) -> None:
        self._zones = {"br0": 1}


def test_a_changed_field_differs() -> None:
    observed = Observation({"a": 1})
    before = fingerprint((observed,))
    observed.ports["b"] = 2
    assert fingerprint((observed,)) != before


def test_a_changed_private_field_differs() -> None:
    observed = Observation({"a": 1})
    before = fingerprint(observed)
    observed.read_zones()
    assert fingerprint(observed) != before


def test_a_replaced_element_of_a_set_differs() -> None:
    observed = Observation(groups={"a", "b"})
    before = fingerprint(observed)
    assert fingerprint(Observation(groups={"b", "a"})) == before
    observed.groups.remove("a")
    observed.groups.add("c")
    assert fingerprint(observed) != before
