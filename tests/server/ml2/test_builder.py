"""The assembled core: order of the pre-commit hooks, and attributes of extension drivers."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self
from uuid import UUID

import pytest
from attrs import evolve

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.server.attribute import Attribute, AttributeType
from netfw.drivers.server.change import Change
from netfw.drivers.server.core_plugin import CorePlugin
from netfw.drivers.server.extension_driver import AttributeStore, ExtensionDriver
from netfw.drivers.server.ipam import IpamCapability
from netfw.drivers.server.query import Body, Query
from netfw.drivers.server.service_plugin import ServicePlugin
from netfw.errors import ConfigError, Conflict, DriverCrashed, InvalidInput, NotFound
from netfw.model.network import Network
from netfw.model.resource import Kind, Resource
from netfw.server.core.document_handler import DocumentsPlugin
from netfw.server.core.extension_drivers import ExtensionDrivers
from netfw.server.db import Database
from netfw.server.ml2.builder import Drivers, build_core, publish
from netfw.server.ml2.plugin import Ml2Plugin
from netfw_drivers.extension_drivers.dns import DnsDriver
from netfw_drivers.extension_drivers.port_security import PortSecurityDriver
from netfw_drivers.extension_drivers.qos import QosDriver
from netfw_drivers.ipam.internal import InternalIpamDriver
from netfw_drivers.mechanism_drivers.logger import LoggerMechanismDriver
from netfw_drivers.type_drivers.vlan import VlanTypeDriver
from tests.server.core.core_client import ADMIN, ALICE, Calls, core_plugin, statements, type_drivers

pytestmark = pytest.mark.real
COLOUR, SHADE = "vendor:colour", "vendor:shade"


class Painter(ExtensionDriver):
    """Keeps a colour of networks and ports, and works out a shade; says what happens when."""

    VERSION: ClassVar[int] = 2

    def __init__(self, called: list[str] | None = None) -> None:
        self.called = called if called is not None else []
        self.away = False
        self.rubbish: Any = None

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls()

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("painter")

    def attributes(self) -> Mapping[Kind, tuple[Attribute, ...]]:
        colour = Attribute(name=COLOUR, type=AttributeType.TEXT, default="grey")
        shade = Attribute(name=SHADE, type=AttributeType.TEXT, settable=False, mutable=False)
        return {Kind.NETWORK: (colour, shade), Kind.PORT: (colour, shade)}

    def apply_fields(self, change: Change, requested: Body) -> Resource:
        self.called.append("shape")
        after = change.resource
        if isinstance(after, Network) and requested.get(COLOUR) == "long":
            return evolve(after, description="x" * 300)
        return after

    def store_attributes(self, change: Change, requested: Body, store: AttributeStore) -> None:
        self.called.append("keep")
        if requested.get(COLOUR) == "black":
            raise Conflict("black is no colour")
        if COLOUR in requested:
            store.write(change.ref, {COLOUR: requested[COLOUR]} if requested[COLOUR] else {})

    def extend(self, kind: Kind, ids: Sequence[UUID], store: AttributeStore) -> Mapping[UUID, Body]:
        if self.away:
            raise ZeroDivisionError("out of paint")
        if self.rubbish is not None:
            return dict.fromkeys(ids, self.rubbish)
        kept = store.read(kind, ids)
        found = {id: {SHADE: f"light {kept[id].get(COLOUR, 'air')}", "name": "x"} for id in ids}
        return {**found, UUID(int=7): {SHADE: "nobody's"}}


class Observed(VlanTypeDriver):
    """Says when a segment is taken."""

    called: list[str]

    def allocate(self, store: Any) -> Any:
        self.called.append("segment")
        return super().allocate(store)


class Checking(LoggerMechanismDriver):
    """Says when it is asked."""

    called: list[str]

    def validate(self, change: Change) -> None:
        self.called.append(f"check {change.ref.kind}")


class Guard(DocumentsPlugin, ServicePlugin):
    """A service plugin that refuses some names."""

    VERSION: ClassVar[int] = 2
    called: list[str]

    def validate(self, change: Change) -> None:
        self.called.append("service")
        if getattr(change.resource, "name", "") == "refused":
            raise Conflict("not by me")
        if getattr(change.resource, "name", "") == "left":
            sys.exit("no switch")


@pytest.mark.spec("ML2-02")
def test_a_request_passes_all_precommit_hooks_in_order(database: Database) -> None:
    called: list[str] = []
    vlans, mechanism = Observed({"physnet1": [(1, 9)]}), Checking()
    vlans.called = mechanism.called = called
    drivers = Drivers(
        ipam=InternalIpamDriver(),
        types=[each for each in type_drivers() if not isinstance(each, VlanTypeDriver)] + [vlans],
        mechanisms=(mechanism,),
        extensions=(Painter(called),),
    )
    core = build_core(database, drivers, core_settings())
    guard = Guard(core.context, ())
    guard.called = called
    core.add_service_plugins([guard])
    calls = Calls(Ml2Plugin(core.context, core.handlers()))
    core.context.start()
    network = calls.network()
    assert called[:4] == ["shape", "keep", "segment", "check network"]
    assert called[-1] == "service"
    called.clear()
    with pytest.raises(Conflict, match="not by me"):
        calls.change("network", network["id"], name="refused")
    assert called == ["shape", "keep", "check network", "service"]
    with pytest.raises(DriverCrashed, match=f"{guard.describe().name}: SystemExit: no switch"):
        calls.change("network", network["id"], name="left")
    called.clear()
    calls.subnet(network, "10.0.0.0/24")
    calls.make("port", network_id=network["id"])
    port = called.index("check port")
    assert called.index("shape") < called.index("keep") < port < called.index("service", port)


def core_settings() -> Any:
    from tests.server.core.core_client import settings

    return settings("vlan")


@pytest.mark.spec("ML2-06")
def test_attributes_of_extension_drivers_are_kept_with_the_row_and_shown(
    database: Database,
) -> None:
    painter = Painter()
    calls = Calls(core_plugin(database, extensions=(painter,)))
    grey, red = calls.network(), calls.network(**{COLOUR: "red"})
    assert (grey[COLOUR], grey[SHADE]) == ("grey", "light grey")
    assert (red[COLOUR], red[SHADE]) == ("red", "light red")
    assert calls.show("network", red["id"]) == red
    blue = calls.change("network", red["id"], **{COLOUR: "blue"})
    assert (blue[COLOUR], blue["revision_number"]) == ("blue", 2)
    assert calls.change("network", red["id"], name="n")[COLOUR] == "blue"
    with pytest.raises(Conflict, match="black"):
        calls.change("network", red["id"], **{COLOUR: "black"})
    with pytest.raises(InvalidInput, match="longer than 255"):
        calls.network(**{COLOUR: "long"})
    calls.plugin.create(ALICE, "network", [{"project_id": "alice"}] * 10)
    with statements(database) as seen:
        found = calls.plugin.find(ALICE, "network", Query())
    assert len(found) == 12
    assert len(seen) <= 4
    assert {each[SHADE] for each in found} == {"light grey", "light blue"}
    bare = calls.change("network", grey["id"], **{COLOUR: ""})
    assert COLOUR not in bare
    assert bare[SHADE] == "light air"
    painter.away = True
    body = calls.show("network", red["id"])
    assert SHADE not in body
    assert (body[COLOUR], body["name"]) == ("blue", "n")
    painter.away = False
    for painter.rubbish in ({SHADE: object()}, [SHADE], 7, {SHADE: {1: {2}}}):
        assert calls.show("network", red["id"]) == body
        assert SHADE not in calls.network()


def test_an_attribute_is_unknown_while_its_driver_is_not_loaded(database: Database) -> None:
    calls = Calls(core_plugin(database))
    with pytest.raises(InvalidInput, match=COLOUR):
        calls.network(**{COLOUR: "red"})
    assert ExtensionDrivers(()).declared() == {}
    declared = ExtensionDrivers((PortSecurityDriver(), DnsDriver())).declared()
    names = {each.name for each in declared["dns"]["port"]}
    assert names == {"dns_name", "dns_domain", "dns_assignment"}
    assert {each.name for each in declared["port_security"]["network"]} == {"port_security_enabled"}


def test_two_extension_drivers_do_not_declare_the_same(database: Database) -> None:
    with pytest.raises(ConfigError, match="painter and painter both declare vendor:colour"):
        ExtensionDrivers((Painter(), Painter()))


@pytest.mark.spec("ML2-06")
@pytest.mark.spec("API-06")
def test_ports_inherit_port_security_and_have_names(database: Database) -> None:
    extensions = (PortSecurityDriver(), DnsDriver(), QosDriver())
    calls = Calls(core_plugin(database, extensions=extensions))
    network = calls.network(port_security_enabled=False, dns_domain="net.example.")
    calls.subnet(network, "10.0.0.0/24")
    plain = calls.make("port", network_id=network["id"])
    assert plain["port_security_enabled"] is False
    assert plain["security_groups"] == []
    assert plain["dns_assignment"] == [
        {
            "hostname": "host-10-0-0-2",
            "ip_address": "10.0.0.2",
            "fqdn": "host-10-0-0-2.net.example.",
        }
    ]
    named = calls.make("port", network_id=network["id"], port_security_enabled=True, dns_name="web")
    assert named["port_security_enabled"] is True
    assert len(named["security_groups"]) == 1
    assert named["dns_assignment"][0]["fqdn"] == "web.net.example."
    moved = calls.change("port", named["id"], fixed_ips=[{"ip_address": "10.0.0.77"}])
    assert [each["ip_address"] for each in moved["dns_assignment"]] == ["10.0.0.77"]
    calls.subnet(network, "fd00::/64", ipv6_ra_mode="slaac", ipv6_address_mode="slaac")
    assert len(calls.show("port", named["id"])["dns_assignment"]) == 2
    after = calls.change("network", network["id"], port_security_enabled=True)
    assert after["port_security_enabled"] is True
    assert calls.show("port", plain["id"])["port_security_enabled"] is False
    with pytest.raises(NotFound, match="QoS policy"):
        calls.network(qos_policy_id="3e0a7c4f-2f0e-4f2c-9e8e-0b5f6f1f2b55")


def test_a_plugin_outside_of_a_server_says_so(database: Database) -> None:
    with pytest.raises(ConfigError, match="within a netfw server"):
        create(CorePlugin, "ml2", {}, LocalHostResources())
    drivers = Drivers(ipam=InternalIpamDriver(), types=type_drivers())
    host = LocalHostResources()
    publish(build_core(database, drivers), host)
    plugin = create(CorePlugin, "ml2", {}, host)
    assert {"network", "subnet", "port", "segment", "agent"} <= plugin.resource_names
    assert plugin.describe().name == "ml2"
    assert plugin.find(ADMIN, "network", Query()) == ()


class ExternalIpamDriver(InternalIpamDriver):
    """IPAM driver with state outside the database."""

    def describe(self) -> DriverInfo[IpamCapability]:
        return DriverInfo("external", {IpamCapability.EXTERNAL})


def test_an_ipam_driver_with_external_state_is_refused_when_the_server_starts(
    database: Database,
) -> None:
    with pytest.raises(ConfigError, match="external keeps its state outside"):
        build_core(database, Drivers(ipam=ExternalIpamDriver(), types=type_drivers()))


class SecondLogger(LoggerMechanismDriver):
    """A driver of another vendor that describes itself by the same name."""


@pytest.mark.parametrize(
    ("option", "drivers"),
    [
        (
            "mechanism_drivers",
            {"mechanisms": [LoggerMechanismDriver(), SecondLogger()]},
        ),
        ("extension_drivers", {"extensions": [Painter(), Painter()]}),
    ],
)
def test_two_drivers_of_one_contract_with_one_name_are_refused(
    option: str, drivers: Mapping[str, Any]
) -> None:
    first, second = (type(each) for each in next(iter(drivers.values())))
    with pytest.raises(ConfigError) as caught:
        Drivers(ipam=InternalIpamDriver(), **drivers)
    assert str(caught.value) == (
        f"{option}: {first.__module__}.{first.__qualname__} and "
        f"{second.__module__}.{second.__qualname__} both describe themselves as "
        f"{'logger' if option == 'mechanism_drivers' else 'painter'!r}: remove one of them from "
        f"{option}"
    )
