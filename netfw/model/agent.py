"""Agents: the processes that configure hosts, as the server stores them."""

from __future__ import annotations

from datetime import datetime
from ipaddress import IPv4Address, IPv6Address

from attrs import field, frozen
from attrs.validators import optional

from netfw.model.values.address import IpAddress, Mac, as_address
from netfw.model.values.ids import AgentId
from netfw.model.values.json_document import JsonDocument
from netfw.model.values.text_validation import check_host, check_text, check_token
from netfw.model.values.validation import Validated, checked_by

_BROADCAST = IPv4Address("255.255.255.255")


@frozen(kw_only=True)
class Agent(Validated):
    """One agent on one host, with the time of its last heartbeat."""

    id: AgentId
    agent_type: str = field(validator=checked_by(check_text))
    """Its type as the API shows it: ``Open vSwitch agent``."""
    binary: str = field(validator=checked_by(check_token))
    host: str = field(validator=checked_by(check_host))
    topic: str = field(default="", validator=checked_by(check_token))
    description: str = field(default="", validator=checked_by(check_text))
    revision: int = 0
    admin_up: bool = True
    alive: bool = False
    availability_zone: str | None = field(default=None, validator=optional(checked_by(check_host)))
    configurations: JsonDocument = field(factory=JsonDocument)
    """Mappings, tunnel types, counts and other data that the agent reports of itself."""
    resources_synced: bool | None = None
    created_at: datetime | None = None
    started_at: datetime | None = None
    heartbeat_at: datetime | None = None

    @property
    def tunnel_address(self) -> IpAddress | None:
        """The tunnel address that the agent advertises, if another host can have it."""
        try:
            address = as_address(str(self.configurations.content().get("tunneling_ip")))
        except ValueError:
            return None
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        no_host = address.is_unspecified or address.is_loopback
        many_hosts = address.is_multicast or address == _BROADCAST
        return None if no_host or many_hosts else address

    @property
    def routing_mac(self) -> Mac | None:
        """The MAC address that routed traffic of its host carries, if it routes distributedly."""
        try:
            return Mac(str(self.configurations.content().get("routing_mac")))
        except ValueError:
            return None
