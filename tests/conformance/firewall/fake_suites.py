"""The firewall suite for drivers of the firewall of the mind."""

from collections.abc import Mapping
from contextlib import AbstractContextManager

from netfw.testing.conformance.firewall.case import FirewallSuite, MakeDriver, emptied
from tests.conformance.common.suite_runner import Refusal, refusal_of
from tests.conformance.firewall.fake_firewall import GoodFirewall, ImaginaryGround


def broken_among(names: Mapping[str, object]) -> dict[str, type[GoodFirewall]]:
    """The drivers among *names* that say what they break."""
    return {
        name: kind
        for name, kind in names.items()
        if isinstance(kind, type) and issubclass(kind, GoodFirewall) and "proves" in vars(kind)
    }


def tried(kind: type[GoodFirewall], suite: FirewallSuite) -> Refusal:
    """How *suite* refuses *kind*; each test is on a ground of its own."""

    def drivers() -> AbstractContextManager[MakeDriver]:
        ground = ImaginaryGround(kind)
        return suite.drivers(ground, emptied(ground))

    return refusal_of(suite, drivers)
