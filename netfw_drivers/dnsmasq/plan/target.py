"""Target state of one network: rendered texts, changed and removed ports.  Pure."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, field

from netfw.drivers.dhcp import DhcpKey, DhcpNetwork, DhcpPort
from netfw.drivers.support.unsupported_dhcp import UnsupportedFields, restrict_network
from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.errors import InvalidInput, NetfwError
from netfw.linux.service_netns.plan import plan_service_netns
from netfw.linux.service_netns.values import ObservedNetns
from netfw.model.values.ids import NetworkId, PortId
from netfw.plan import Stage
from netfw_drivers.dnsmasq.config.dhcp_opts import option_problem
from netfw_drivers.dnsmasq.config.file_parsers import HostEntry, addresses_in
from netfw_drivers.dnsmasq.config.paths import NetworkPaths
from netfw_drivers.dnsmasq.config.render import render_port
from netfw_drivers.dnsmasq.config.unsupported_port_fields import restrict_port
from netfw_drivers.dnsmasq.plan.address_conflicts import blocked_ports
from netfw_drivers.dnsmasq.plan.observed import FoundNetwork
from netfw_drivers.dnsmasq.plan.reload import ChangedPort
from netfw_drivers.dnsmasq.plan.service_spec import DriverContext, ServiceSpec

UNSERVED = "its network is not served on this host yet"


@define
class NetworkUpdate:
    """The part of an update that concerns one network."""

    network: DhcpNetwork | None = None
    dropped: bool = False
    put: dict[PortId, DhcpPort] = field(factory=dict)
    gone: set[PortId] = field(factory=set)


@define(kw_only=True)
class NetworkTarget:
    """The state that a plan brings one network to, compared with what was found."""

    id: NetworkId
    found: FoundNetwork
    context: DriverContext
    value: DhcpNetwork | None = None
    """The network as it will be served; ``None``: it is not served on this host."""
    spec: ServiceSpec | None = None
    """Text and program of the network, if the update concerns the network itself."""
    starts: bool = False
    """A program other than the running one has to run."""
    netns_stages: tuple[Stage, ...] = ()
    changed: dict[PortId, ChangedPort] = field(factory=dict)
    gone: frozenset[PortId] = frozenset()
    waiting: dict[DhcpKey, str] = field(factory=dict)
    refused: dict[DhcpKey, NetfwError] = field(factory=dict)

    @property
    def key(self) -> DhcpKey:
        return NetworkKey(self.id)

    @property
    def paths(self) -> NetworkPaths:
        return self.context.files(self.id)

    @property
    def will_run(self) -> bool:
        """Whether dnsmasq runs once the plan was applied."""
        return self.starts or self.found.process is not None

    @property
    def lacks_settings(self) -> bool:
        """Whether the namespace is changed, or a program started in it, and its kernel parameters
        and packet filter rules are unknown."""
        changes = bool(self.netns_stages) or self.starts
        return changes and self.found.netns is not None and self.found.netns.devices_only

    def entries(self) -> Iterator[HostEntry]:
        """Yield the host entries of all ports that will be served."""
        files = self.found.files
        for port in files.ports.keys() - self.gone - self.changed.keys():
            yield files.entry(port)
        yield from (changed.entry for changed in self.changed.values())


def resolve_target(
    id: NetworkId, found: FoundNetwork, context: DriverContext, update: NetworkUpdate
) -> NetworkTarget:
    """Compare *update* with what was *found* of a network, and render what differs."""
    files = found.files
    target = NetworkTarget(
        id=id, found=found, context=context, value=found.desired if files.exists else None
    )
    network, unsupported = None, UnsupportedFields()
    if update.network is not None:
        network, unsupported = restrict_network(update.network, option_problem)
    has_drifted = found.stale_watches or found.device_gone
    if network is None and has_drifted and (update.put or update.gone):
        network = found.desired  # some of its files may be missing, or its device
    if network is not None:
        _set_network(target, network, unsupported)
    target.gone = frozenset(
        port for port in update.gone if port in files.ports or port in files.tombstones
    )
    if target.value is None:
        target.waiting |= {PortKey(port): UNSERVED for port in update.put}
        return target
    for port, value in _affected_ports(target, network, update):
        _set_port(target, target.value, port, value, target.key)
    for port, value in update.put.items():
        _set_port(target, target.value, port, value, PortKey(port))
    _defer_blocked_ports(target)
    return target


def _set_network(
    target: NetworkTarget, network: DhcpNetwork, unsupported: UnsupportedFields
) -> None:
    """Serve *network*; if it cannot be rendered, the former one stays."""
    try:
        spec = target.context.service_spec(target.id, network)
        wanted = target.context.service_netns(target.id, network)
    except InvalidInput as error:
        target.refused[target.key] = error
        return
    observed = target.found.netns or ObservedNetns(netns=wanted.netns)
    target.netns_stages = plan_service_netns(target.key, wanted, observed)
    target.spec, target.value = spec, network
    if unsupported.error is not None:
        target.refused[target.key] = unsupported.error
    target.starts = spec.program.digest() != target.found.process


def _affected_ports(
    target: NetworkTarget, network: DhcpNetwork | None, update: NetworkUpdate
) -> Iterator[tuple[PortId, DhcpPort]]:
    """Yield desired ports that *update* does not name and that *network* concerns.

    A changed network concerns all ports, an unchanged one those without files: they waited for it.
    """
    if network is None or target.value is not network:
        return
    found = target.found
    changed = network != found.desired
    for port, value in found.desired_ports.items():
        concerned = changed or port not in found.files.ports
        if concerned and port not in update.put and port not in update.gone:
            yield port, value


def _set_port(
    target: NetworkTarget, network: DhcpNetwork, port: PortId, value: DhcpPort, owner: DhcpKey
) -> None:
    settings = target.context.settings
    supported, unsupported = restrict_port(value, network, settings)
    try:
        text = render_port(port, supported, network, settings)
    except InvalidInput as error:
        if owner == PortKey(port):
            target.refused[owner] = error
            target.gone |= {port} if _loses_addresses(target, port, value) else frozenset()
        return
    if unsupported.error is not None and owner == PortKey(port):
        target.refused[owner] = unsupported.error
    if text != target.found.files.ports.get(port):
        target.changed[port] = ChangedPort(
            text=text, value=value, owner=owner, words=addresses_in(text.host)
        )


def _loses_addresses(target: NetworkTarget, port: PortId, value: DhcpPort) -> bool:
    """Return whether the port's files have an address that *value* lacks.

    Another port may need that address: if the port cannot be served as *value*, it must not be
    served as before either.
    """
    former = target.found.files.ports.get(port)
    own = {value.mac, *(str(fixed.address) for fixed in value.fixed_ips)}
    return former is not None and bool(addresses_in(former.host) - own)


def _defer_blocked_ports(target: NetworkTarget) -> None:
    """Let ports wait whose addresses another port still has."""
    changed, owner_of = target.changed, target.found.files.owner_of

    def loses_addresses(port: PortId) -> bool:
        return _loses_addresses(target, port, changed[port].value)

    wanted = {port: new.words for port, new in changed.items()}
    blocked = blocked_ports(wanted, owner_of, loses_addresses, target.gone)
    for port, why in blocked.items():
        target.gone |= {port} if loses_addresses(port) else frozenset()
        if changed.pop(port).owner == PortKey(port):
            target.refused.pop(PortKey(port), None)  # nothing of it is served yet
            target.waiting[PortKey(port)] = why
