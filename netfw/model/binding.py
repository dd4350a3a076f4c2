"""Where a port is bound, and how the hypervisor there plugs it."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator

from attrs import field, fields, frozen
from attrs.validators import optional

from netfw.model.segment import VLAN_IDS
from netfw.model.values.device_names import check_device_name
from netfw.model.values.json_document import JsonDocument
from netfw.model.values.text_validation import (
    check_host,
    check_physical_network,
    check_socket_path,
    check_token,
)
from netfw.model.values.validation import Problem, Validated, checked_by, each, outside


class VnicType(enum.StrEnum):
    """The kind of network card that an instance requests."""

    NORMAL = "normal"
    DIRECT = "direct"
    DIRECT_PHYSICAL = "direct-physical"
    MACVTAP = "macvtap"
    BAREMETAL = "baremetal"
    VIRTIO_FORWARDER = "virtio-forwarder"
    SMART_NIC = "smart-nic"
    VDPA = "vdpa"
    ACCELERATOR_DIRECT = "accelerator-direct"
    ACCELERATOR_DIRECT_PHYSICAL = "accelerator-direct-physical"
    REMOTE_MANAGED = "remote-managed"


class VifType(enum.StrEnum):
    """The vif types that netfw itself uses; a mechanism driver may return another word."""

    UNBOUND = "unbound"
    BINDING_FAILED = "binding_failed"
    DISTRIBUTED = "distributed"
    OVS = "ovs"
    BRIDGE = "bridge"
    TAP = "tap"
    VHOST_USER = "vhostuser"
    HW_VEB = "hw_veb"
    HOSTDEV_PHYSICAL = "hostdev_physical"
    OTHER = "other"


class VhostUserMode(enum.StrEnum):
    """The end of a vhost-user socket that the instance is."""

    CLIENT = "client"
    SERVER = "server"


@frozen(kw_only=True)
class VifDetails(Validated):
    """Data that the hypervisor needs to plug the port."""

    port_filter: bool | None = None
    """The network side filters; the hypervisor need not."""
    ovs_hybrid_plug: bool | None = None
    """Put a Linux bridge between the instance and the switch."""
    connectivity: str | None = field(default=None, validator=optional(checked_by(check_token)))
    bridge_name: str | None = field(default=None, validator=optional(checked_by(check_device_name)))
    datapath_type: str | None = field(default=None, validator=optional(checked_by(check_token)))
    vhostuser_socket: str | None = field(
        default=None, validator=optional(checked_by(check_socket_path))
    )
    vhostuser_mode: VhostUserMode | None = None
    vhostuser_ovs_plug: bool | None = None
    vlan: int | None = None
    """The VLAN tag that a virtual function adds; 0 is none."""
    physical_network: str | None = field(
        default=None, validator=optional(checked_by(check_physical_network))
    )
    other: JsonDocument = field(factory=JsonDocument)
    """Data that a vendor's driver passes to its own plug-in of the hypervisor."""

    def _problems(self) -> Iterator[Problem]:
        if self.vlan and self.vlan not in VLAN_IDS:
            yield "vlan", outside(self.vlan, VLAN_IDS)
        if self.other:
            for name in sorted(self.other.content().keys() & _DETAILS):
                yield "other", f"{name} has a field of its own"


_DETAILS = frozenset(detail.name for detail in fields(VifDetails)) - {"other"}


def check_vif_type(text: str) -> None:
    """Refuse text that is not a single word."""
    check_token(text)
    if not text:
        raise ValueError("a vif type is not empty; use 'unbound'")


def _check_binding_host(text: str) -> None:
    if text:
        check_host(text)


def _set_of_hosts(values: Iterable[str]) -> frozenset[str]:
    return frozenset(values)


@frozen(kw_only=True)
class Binding(Validated):
    """The host a port is on, and how it is plugged there.  No host: not bound yet.

    The interfaces and the gateway of a highly available router are on several hosts at once.
    """

    host: str = field(default="", validator=checked_by(_check_binding_host))
    """The host that uses the port; of a port on several hosts, the active one, if it is known."""
    hosts: frozenset[str] = field(
        default=frozenset(), converter=_set_of_hosts, validator=each(check_host)
    )
    """All hosts that have the port plugged at once; empty for a port on one host."""
    prepared_hosts: frozenset[str] = field(
        default=frozenset(), converter=_set_of_hosts, validator=each(check_host)
    )
    """Hosts with an inactive binding: they prepare for the port, which may be activated there."""
    vnic_type: VnicType = VnicType.NORMAL
    vif_type: str = field(default=VifType.UNBOUND.value, validator=checked_by(check_vif_type))
    vif_details: VifDetails = field(factory=VifDetails)
    profile: JsonDocument = field(factory=JsonDocument)
    """Data of the compute service about the card; drivers read it, netfw does not."""

    @property
    def all_hosts(self) -> frozenset[str]:
        """Every host that has the port plugged."""
        return self.hosts | {self.host} if self.host else self.hosts

    def is_on(self, host: str) -> bool:
        """Return whether the port is plugged on *host*."""
        return bool(host) and (host == self.host or host in self.hosts)
