"""A changed argument is seen; a cache inside it is none."""

from __future__ import annotations

from attrs import define, field

from netfw.testing.conformance.watch.fingerprint import fingerprint


@define
class Observation:
    """A value with a cache."""

    ports: dict[str, int] = field(factory=dict)
    _zones: dict[str, int] | None = None

    def read_zones(self) -> None:
        self._zones = {"br0": 1}


def test_a_changed_field_differs() -> None:
    observed = Observation({"a": 1})
    before = fingerprint((observed,))
    observed.ports["b"] = 2
    assert fingerprint((observed,)) != before


def test_a_private_field_may_hold_a_cache() -> None:
    observed = Observation({"a": 1})
    shallow, deep = fingerprint(observed), fingerprint(observed, deep=True)
    observed.read_zones()
    assert fingerprint(observed) == shallow
    assert fingerprint(observed, deep=True) != deep
