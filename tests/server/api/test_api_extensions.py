"""Attributes that extension drivers add to resources of netfw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.attribute import Attribute, AttributeType
from netfw.drivers.server.extension_driver import ExtensionDriver
from netfw.model.resource import Kind
from netfw.server.core.extension_drivers import ExtensionDrivers
from netfw_drivers.extension_drivers.port_security import PortSecurityDriver
from tests.server.api.environment import Client, api
from tests.server.api.plugins import kept

COLOR, SIZE = "acme:color", "acme:size"


class Declares(ExtensionDriver):
    """Says what it adds, and nothing else."""

    VERSION: ClassVar[int] = 2

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls()

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("declares")

    def attributes(self) -> Mapping[Kind, tuple[Attribute, ...]]:
        color = Attribute(name=COLOR, type=AttributeType.TEXT, default="grey")
        size = Attribute(name=SIZE, type=AttributeType.INTEGER, nullable=True)
        return {Kind.NETWORK: (color, size), Kind.PORT: (color,)}


@pytest.fixture
def extended(empty_tables: Path, tmp_path: Path) -> Iterator[Client]:
    """Yield the client of Alice on a server with two extension drivers."""
    drivers = (PortSecurityDriver(), Declares())
    with kept(empty_tables, tmp_path, drivers) as plugins:
        yield api(plugins, extending=ExtensionDrivers(drivers).declared())


@pytest.mark.spec("ML2-06")
def test_what_a_driver_only_declares_is_stored_with_its_defaults(extended: Client) -> None:
    network = extended.make("networks", acme__color="blue")
    assert (network[COLOR], network[SIZE]) == ("blue", None)
    path = f"networks/{network['id']}"
    for change, expected in (
        ({}, ("blue", None)),
        ({"name": "other"}, ("blue", None)),
        ({SIZE: 7}, ("blue", 7)),
        ({COLOR: "red"}, ("red", 7)),
    ):
        changed = extended.put(path, {"network": change}).json["network"]
        assert (changed[COLOR], changed[SIZE]) == expected
        body = extended.get(path).json["network"]
        assert (body[COLOR], body[SIZE]) == expected
    port = extended.make("ports", network_id=network["id"])
    assert port[COLOR] == extended.get(f"ports/{port['id']}").json["port"][COLOR] == "grey"


@pytest.mark.spec("API-05")
def test_fields_of_the_model_are_found_and_what_is_kept_beside_it_is_refused(
    extended: Client,
) -> None:
    on = extended.make("networks", name="on", acme__color="blue")
    extended.make("networks", name="off", port_security_enabled=False)
    for name, network in (("safe", on["id"]), ("open", on["id"])):
        extended.make("ports", name=name, network_id=network, port_security_enabled=name == "safe")
    assert extended.names("networks", port_security_enabled="true") == ["on"]
    assert extended.names("networks", port_security_enabled="False") == ["off"]
    assert extended.names("ports", port_security_enabled="0") == ["open"]
    extended.put(f"networks/{on['id']}", {"network": {"port_security_enabled": False}})
    assert extended.list("networks", port_security_enabled="true") == []
    by_flag = extended.names("networks", ("sort_key", "port_security_enabled"), sort_dir="desc")
    assert sorted(by_flag) == ["off", "on"]
    refused = extended.get("networks", (COLOR, "blue"))
    assert (refused.status, refused.error["message"]) == (400, f"{COLOR}: cannot be filtered by")
    refused = extended.get("networks", ("sort_key", COLOR))
    assert (refused.status, "cannot be sorted by" in refused.error["message"]) == (400, True)


@pytest.mark.spec("API-05")
def test_fields_that_are_nowhere_are_refused_with_a_suggestion(extended: Client) -> None:
    network = extended.make("networks", name="n")
    for path in ("networks", f"networks/{network['id']}"):
        refused = extended.get(path, fields="nome")
        assert refused.status == 400
        assert refused.error["message"] == (
            "fields: there is no attribute 'nome', did you mean 'name'?"
        )
        assert extended.get(path, ("fields", "nome"), ("fields", "name")).status == 200
    assert extended.list("networks", fields="name,nome") == [{"name": "n"}]
