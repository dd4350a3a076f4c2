"""The firewall suite for drivers of the firewall of the mind."""

from collections.abc import Iterator, Mapping

import pytest
from imaginary_firewall import GoodFirewall, ImaginaryGround

from netfw.testing.conformance.firewall import FirewallDriverConformance


def suites(names: Mapping[str, object]) -> dict[str, type]:
    """A suite for each driver among *names* that says what it breaks."""
    found = [
        kind
        for kind in names.values()
        if isinstance(kind, type) and issubclass(kind, GoodFirewall) and "proves" in vars(kind)
    ]
    return {f"Test{kind.__name__}": suite(kind) for kind in found}


def suite(kind: type[GoodFirewall], base: type = FirewallDriverConformance) -> type:
    def shared_ground(cls) -> Iterator[ImaginaryGround]:
        yield ImaginaryGround(kind)

    fixture = pytest.fixture(scope="class")(classmethod(shared_ground))
    body = {"shared_ground": fixture, "kind": kind}
    return type(f"Test{kind.__name__}", (base,), body)
