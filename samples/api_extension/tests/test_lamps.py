"""The conformance suite of API extensions, for lamps: python -m pytest."""

from __future__ import annotations

from collections.abc import Sequence

from acme_lamps.lamps import LampExtension

from netfw.drivers.server.api_extension import ApiExtension
from netfw.testing.conformance.server.api_extension import ApiExtensionConformance, CreateRequest


class TestLamps(ApiExtensionConformance):
    """The suite, with requests for lamps."""

    def make_extension(self) -> ApiExtension:
        return LampExtension()

    def requests(self) -> Sequence[CreateRequest]:
        return (
            CreateRequest("lamp"),
            CreateRequest("lamp", {"name": "desk", "brightness": 40}),
            CreateRequest("lamp", {"brightness": 101}, refused="brightness"),
            CreateRequest("lamp", {"port_id": "the first"}, refused="port_id"),
            CreateRequest("lamp", {"colour": "red"}, refused="colour"),
        )
