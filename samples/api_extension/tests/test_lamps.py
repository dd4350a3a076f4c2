"""The conformance suite of API extensions, for lamps: python -m pytest."""

from __future__ import annotations

from collections.abc import Sequence

from acme_lamps.lamps import LampExtension

from netfw.drivers.server.api_extension import ApiExtension
from netfw.testing.conformance.server.api_extension import ApiExtensionConformance, Request


class TestLamps(ApiExtensionConformance):
    """The suite, with requests for lamps."""

    def make_extension(self) -> ApiExtension:
        return LampExtension()

    def requests(self) -> Sequence[Request]:
        return (
            Request("lamp"),
            Request("lamp", {"name": "desk", "brightness": 40}),
            Request("lamp", {"brightness": 101}, refused="brightness"),
            Request("lamp", {"port_id": "the first"}, refused="port_id"),
            Request("lamp", {"colour": "red"}, refused="colour"),
        )
