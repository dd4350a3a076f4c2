"""The extension drivers of netfw pass the suite that every extension driver passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar
from uuid import uuid4

import pytest
from attrs import evolve

from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.server.extension_driver import ExtensionDriver
from netfw.errors import ConfigError
from netfw.model.port import DnsAssignment
from netfw.testing.conformance.server.extension_driver import (
    NETWORK,
    PORT,
    Example,
    ExtensionDriverConformance,
)


class ByName(ExtensionDriverConformance):
    """A driver as an operator gets it."""

    NAME: ClassVar[str]

    def make_driver(self) -> ExtensionDriver:
        return create(ExtensionDriver, self.NAME, {}, LocalHostResources())


@pytest.mark.spec("ML2-06")
class TestPortSecurity(ByName):
    NAME = "port_security"

    def examples(self) -> Sequence[Example]:
        off, name = evolve(NETWORK, port_security=False), "port_security_enabled"
        return (
            Example(resource=NETWORK, shaped={"port_security": True}),
            Example(resource=NETWORK, requested={name: False}, shaped={"port_security": False}),
            Example(resource=PORT, shaped={"port_security": True}),
            Example(resource=PORT, requested={name: False}, shaped={"port_security": False}),
            Example(resource=PORT, network=off, shaped={"port_security": False}),
            Example(
                resource=PORT, network=off, requested={name: True}, shaped={"port_security": True}
            ),
        )


POLICY = uuid4()


@pytest.mark.spec("ML2-06")
class TestQos(ByName):
    NAME = "qos"

    def examples(self) -> Sequence[Example]:
        return (
            Example(resource=NETWORK),
            Example(resource=NETWORK, requested={"qos_policy_id": None}),
            Example(
                resource=NETWORK,
                requested={"qos_policy_id": str(POLICY)},
                shaped={"qos_policy_id": POLICY},
            ),
            Example(resource=PORT),
            Example(resource=PORT, requested={"qos_policy_id": None}),
            Example(
                resource=PORT,
                requested={"qos_policy_id": str(POLICY)},
                shaped={"qos_policy_id": POLICY},
            ),
        )


def assigned(hostname: str, fqdn: str) -> dict[str, object]:
    address = PORT.fixed_ips[0].address
    return {
        "dns_assignment": (DnsAssignment(address=address, hostname=hostname, fqdn=fqdn),),
    }


@pytest.mark.spec("ML2-06")
class TestDns(ByName):
    NAME = "dns"

    def examples(self) -> Sequence[Example]:
        named = evolve(NETWORK, dns_domain="net.example.")
        plain = "host-192-0-2-10"
        return (
            Example(resource=NETWORK, shaped={"dns_domain": ""}),
            Example(
                resource=NETWORK, requested={"dns_domain": "a.b."}, shaped={"dns_domain": "a.b."}
            ),
            Example(resource=PORT, shaped=assigned(plain, f"{plain}.openstacklocal.")),
            Example(resource=PORT, network=named, shaped=assigned(plain, f"{plain}.net.example.")),
            Example(
                resource=PORT,
                network=named,
                requested={"dns_name": "web", "dns_domain": "own.example"},
                shaped={
                    "dns_name": "web",
                    "dns_domain": "own.example",
                    **assigned("web", "web.own.example."),
                },
            ),
            Example(
                resource=PORT,
                requested={"dns_name": "web.whole.example."},
                shaped={
                    "dns_name": "web.whole.example.",
                    **assigned("web", "web.whole.example."),
                },
            ),
            Example(resource=evolve(PORT, fixed_ips=()), shaped={"dns_assignment": ()}),
        )

    def impossible(self) -> Example | None:
        """Return an example whose name and domain are each short enough, but not together."""
        long = ".".join(["a" * 60] * 4)
        return Example(resource=PORT, requested={"dns_name": long, "dns_domain": "b" * 60})


def test_a_domain_that_is_none_is_refused_when_the_server_starts() -> None:
    with pytest.raises(ConfigError, match="dns_domain"):
        create(ExtensionDriver, "dns", {"dns_domain": "no domain"}, LocalHostResources())
