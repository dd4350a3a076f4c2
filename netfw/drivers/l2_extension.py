"""L2Extension: adds flows for the ports of a switch."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from netfw.drivers.agent_extension import AgentExtension
from netfw.drivers.values.switch_contribution import SwitchContribution
from netfw.drivers.values.switch_values import SwitchDevice
from netfw.model.local_ip import LocalIpAssociation
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.resource import Resource
from netfw.model.values.ids import PortId


@frozen(kw_only=True)
class ExtendedPort:
    """The view of a port of this host for extensions."""

    port: Port
    network: Network
    device: SwitchDevice
    related: tuple[Resource, ...] = ()
    """Resources that the port or its network refers to: QoS policy, subnets, groups,
    the distributed DHCP port; with packet logs of the port also these, and the rules of its groups.
    """
    local_ips: tuple[LocalIpAssociation, ...] = ()
    """The local IPs that lead to this port on this host; one that leads to several ports here is
    that of the port with the lowest id."""


class L2Extension(AgentExtension[PortId, ExtendedPort, SwitchContribution]):
    """Adds flows, with meters, for the ports of this host.

    Promises are those of :class:`AgentExtension`, and:

    1. The extension is called for every port that is not dead, when the port appears and when its
       view changes; the contribution is in force before the port becomes live.
    2. The contribution to a port is removed with that port.
    """

    GROUP: ClassVar[str] = "netfw.l2_extensions"
    VERSION: ClassVar[int] = 2
