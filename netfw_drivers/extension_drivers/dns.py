"""DnsDriver: DNS names of ports and of their addresses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, TypeVar, cast

from attrs import evolve
from oslo_config import cfg

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.attribute import Attribute, AttributeType, Value
from netfw.drivers.server.change import Change
from netfw.drivers.server.extension_driver import ExtensionDriver
from netfw.drivers.server.query import Body
from netfw.drivers.support import dhcp_option_text
from netfw.errors import ConfigError, InvalidInput
from netfw.model.network import Network
from netfw.model.port import DnsAssignment, Port
from netfw.model.resource import Kind, Resource
from netfw.model.values.address import IpAddress
from netfw.model.values.text_validation import TEXT_LENGTH, is_autodiscovery_name

NAME, DOMAIN = "dns_name", "dns_domain"
LABEL_LENGTH = 63
R = TypeVar("R", Network, Port)


class DnsDriver(ExtensionDriver):
    """Adds names of ports and domains of ports and networks; a port's names follow from both.

    A port without a name is named after its address.  Without a domain of port or network, the
    configured one applies.  The domain of a port belongs to the owner of its network, since all
    instances of the network resolve names in it.  A domain that a network gets later applies to a
    port from its next change on.
    """

    VERSION: ClassVar[int] = 2
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = (
        cfg.StrOpt(
            "dns_domain",
            default="openstacklocal",
            help="The domain of ports where neither port nor network has one.",
        ),
    )

    def __init__(self, domain: str = "openstacklocal") -> None:
        self._domain = domain

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        try:
            _check_served(options["dns_domain"])
        except ValueError as exc:
            raise ConfigError(f"dns_domain: {exc}") from exc
        return cls(options["dns_domain"])

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("dns")

    def attributes(self) -> Mapping[Kind, tuple[Attribute, ...]]:
        domain = _text(DOMAIN, check_domain, filterable=False)
        port_domain = evolve(domain, network_owner_only=True)
        assigned = Attribute(
            name="dns_assignment",
            type=AttributeType.OBJECTS,
            settable=False,
            mutable=False,
            filterable=False,
        )
        names = (_text(NAME, check_name), port_domain, assigned)
        return {Kind.NETWORK: (domain,), Kind.PORT: names}

    def apply_fields(self, change: Change, requested: Body) -> Resource:
        after = change.resource
        if isinstance(after, Network):
            return _with(after, dns_domain=requested.get(DOMAIN, after.dns_domain))
        if not isinstance(after, Port):
            return after
        named = _with(
            after,
            dns_name=requested.get(NAME, after.dns_name),
            dns_domain=requested.get(DOMAIN, after.dns_domain),
        )
        return _with(named, dns_assignment=self._assigned(named, change.network))

    def _assigned(self, port: Port, network: Network | None) -> tuple[DnsAssignment, ...]:
        of_network = "" if network is None else network.dns_domain
        domain = (port.dns_domain or of_network or self._domain).removesuffix(".")
        return tuple(_assignment(port, each.address, domain) for each in port.fixed_ips)


def _assignment(port: Port, address: IpAddress, domain: str) -> DnsAssignment:
    given = port.dns_name or _called_after(address)
    name = given.removesuffix(".")
    full = name if given.endswith(".") or not domain else f"{name}.{domain}"
    if len(full) + 1 > TEXT_LENGTH:
        raise InvalidInput({NAME: f"is too long with the domain {domain}"})
    return DnsAssignment(address=address, hostname=name.split(".")[0], fqdn=f"{full}.")


def _called_after(address: IpAddress) -> str:
    separator = "." if address.version == 4 else ":"
    return "host-" + address.exploded.replace(separator, "-")


def check_name(value: Value) -> None:
    """Validate the name of a port.

    :raises ValueError: it is not a DNS name, or one that no DHCP driver serves, or one that other
        hosts would trust by itself.
    """
    text = cast(str, value)
    _check_served(text)
    if is_autodiscovery_name(text):
        raise ValueError(
            f"{text!r} is looked up by other hosts to configure themselves: choose another name"
        )


def check_domain(value: Value) -> None:
    """Validate a domain.

    :raises ValueError: it is not a DNS name, or one that no DHCP driver serves, or leaves no room
        for one within it.
    """
    text = cast(str, value)
    _check_served(text)
    if len(text) > TEXT_LENGTH - LABEL_LENGTH - 1:
        raise ValueError(f"longer than {TEXT_LENGTH - LABEL_LENGTH - 1} characters")


def _check_served(name: str) -> None:
    if name:
        dhcp_option_text.check_domain(name)


def _text(name: str, check: Callable[[Value], None], *, filterable: bool = True) -> Attribute:
    return Attribute(
        name=name, type=AttributeType.TEXT, default="", check=check, filterable=filterable
    )


def _with(resource: R, **values: Any) -> R:
    """Return *resource* with these fields; the same object if it has them."""
    same = all(getattr(resource, name) == value for name, value in values.items())
    return resource if same else evolve(resource, **values)
