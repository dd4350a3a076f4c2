"""DHCP drivers that tell clients something else than they were told: promise 1."""

import threading
from ipaddress import ip_interface

from attrs import evolve

from netfw.drivers.dhcp import DhcpDriver
from netfw.errors import NetfwError
from netfw.plan import Outcome
from netfw.testing.conformance.common.promises import proves as breaks
from tests.conformance.dhcp.fake_dhcp import GoodDhcp


@breaks(DhcpDriver, 1)
class GivesWhatAnotherHas(GoodDhcp):
    """Every port of a network gets the address of the first that came."""

    def entry(self, port, network):
        made = super().entry(port, network)
        mates = [p for p in self.machine.ports.values() if p.network == port.network]
        first = super().entry(mates[0], network).leases if mates else ()
        return evolve(made, leases=first if made.leases and first else made.leases)


@breaks(DhcpDriver, 1)
class AnswersStrangers(GoodDhcp):
    """Who is not known gets what somebody else could have."""

    def __init__(self, machine):
        super().__init__(machine)
        machine.open_to.add("strangers")


@breaks(DhcpDriver, 1)
class AnswersEverywhere(GoodDhcp):
    """A server hears the clients of all networks."""

    def __init__(self, machine):
        super().__init__(machine)
        machine.open_to.add("networks")


@breaks(DhcpDriver, 1)
class ForgetsTheMtu(GoodDhcp):
    def lease(self, port, network, subnet, address):
        return evolve(super().lease(port, network, subnet, address), mtu=None)


@breaks(DhcpDriver, 1)
class KnowsNoGateway(GoodDhcp):
    def lease(self, port, network, subnet, address):
        return evolve(super().lease(port, network, subnet, address), gateways=())


@breaks(DhcpDriver, 1)
class TakesItselfForTheGateway(GoodDhcp):
    """Where there is none, it names itself, as some servers do when they are told nothing."""

    def lease(self, port, network, subnet, address):
        lease = super().lease(port, network, subnet, address)
        return evolve(lease, gateways=lease.gateways or (lease.server,))


@breaks(DhcpDriver, 1)
class AlwaysNamesItselfForNames(GoodDhcp):
    def lease(self, port, network, subnet, address):
        lease = super().lease(port, network, subnet, address)
        return evolve(lease, dns=(lease.server,))


@breaks(DhcpDriver, 1)
class KnowsNoPeers(GoodDhcp):
    """It takes itself for the only server of the network."""

    def lease(self, port, network, subnet, address):
        return super().lease(port, evolve(network, peers=()), subnet, address)


@breaks(DhcpDriver, 1)
class TellsNoRoutes(GoodDhcp):
    def routes(self, network, subnet, own):
        return []


@breaks(DhcpDriver, 1)
class LeavesTheDefaultRouteToTheGateway(GoodDhcp):
    """Who is told routes does not look at the gateway."""

    def routes(self, network, subnet, own):
        return (r for r in super().routes(network, subnet, own) if r.destination.prefixlen)


@breaks(DhcpDriver, 1)
class SendsNeighboursToTheGateway(GoodDhcp):
    """Other subnets of the network are taken for far away."""

    def routes(self, network, subnet, own):
        return super().routes(evolve(network, subnets=(subnet,)), subnet, own)


@breaks(DhcpDriver, 1)
class ShowsNoWayToMetadata(GoodDhcp):
    def routes(self, network, subnet, own):
        return super().routes(evolve(network, metadata_for=frozenset()), subnet, own)


@breaks(DhcpDriver, 1)
class ShowsEverybodyTheWayToMetadata(GoodDhcp):
    def routes(self, network, subnet, own):
        known = frozenset({subnet.id}) if network.metadata_for else frozenset()
        return super().routes(evolve(network, metadata_for=known), subnet, own)


@breaks(DhcpDriver, 1)
class CallsEverybodyByAddress(GoodDhcp):
    def lease(self, port, network, subnet, address):
        return super().lease(evolve(port, hostname=""), network, subnet, address)


@breaks(DhcpDriver, 1)
class KnowsOneDomain(GoodDhcp):
    """The domain of a port is the network's."""

    def lease(self, port, network, subnet, address):
        return super().lease(evolve(port, domain=""), network, subnet, address)


@breaks(DhcpDriver, 1)
class SwallowsThePortsOptions(GoodDhcp):
    def options(self, port, network, version):
        return super().options(evolve(port, options=()), network, version)


@breaks(DhcpDriver, 1)
class LetsTheNetworkWin(GoodDhcp):
    def options(self, port, network, version):
        own = super().options(port, network, version)
        return {**own, **super().options(evolve(port, options=()), network, version)}


@breaks(DhcpDriver, 1)
class KnowsOptionsByNameOnly(GoodDhcp):
    def options(self, port, network, version):
        def named(options):
            return tuple(option for option in options if not option.name.isdigit())

        plain = evolve(network, options=named(network.options))
        return super().options(evolve(port, options=named(port.options)), plain, version)


@breaks(DhcpDriver, 1)
class TellsTheEmpty(GoodDhcp):
    """An option without a value leaves what it was to leave out."""

    def options(self, port, network, version):
        known = super().options(port, network, version)
        return {number: value for number, value in known.items() if value}


@breaks(DhcpDriver, 1)
class TakesNameAndNumberForTwo(GoodDhcp):
    """An option that is called otherwise by the network is not the port's."""

    def options(self, port, network, version):
        names = {option.name for option in port.options}
        known = super().options(port, network, version)
        common = super().options(evolve(port, options=()), network, version)
        kept = super().options(evolve(port, options=()), _without(network, names), version)
        return {**known, **{n: common[n] for n in kept}}


@breaks(DhcpDriver, 1)
class NamesAddressZero(GoodDhcp):
    def name_servers(self, subnet, ours):
        return subnet.dns_nameservers or ours


@breaks(DhcpDriver, 1)
class KnowsNoIpxe(GoodDhcp):
    """All clients boot alike."""

    def booting(self, port, network, pairs):
        self.boots = "!ipxe"
        return self.entry_leases(port, network, pairs)


@breaks(DhcpDriver, 1, 4)
class BelievesInClientIds(GoodDhcp):
    """Who calls itself otherwise is somebody else."""

    def __init__(self, machine):
        super().__init__(machine)
        machine.open_to.add("ids")


@breaks(DhcpDriver, 1)
class ServesEverySubnet(GoodDhcp):
    """Also those that are not to be served."""

    def entry(self, port, network):
        served = tuple(evolve(subnet, enable_dhcp=True) for subnet in network.subnets)
        extra = tuple(
            f"{s.cidr[2]}/{s.cidr.prefixlen}" for s in network.subnets if not s.enable_dhcp
        )
        own = evolve(
            network.server, addresses=(*network.server.addresses, *map(ip_interface, extra))
        )
        return super().entry(port, evolve(network, subnets=served, server=own))


@breaks(DhcpDriver, 1)
class KnowsTheFirstSubnetOnly(GoodDhcp):
    def entry(self, port, network):
        return super().entry(port, evolve(network, subnets=network.subnets[:1]))


@breaks(DhcpDriver, 1)
class TellsTheOldUntilThePortChanges(GoodDhcp):
    """A changed network is not told to the ports that are there."""

    def put_network(self, id, value):
        before = self.machine.nets.get(id)
        kept = dict(before.entries) if before else {}
        super().put_network(id, value)
        self.machine.nets[id].entries.update(kept)


@breaks(DhcpDriver, 1)
class KeepsTheOldMac(GoodDhcp):
    """Whoever once was a port still is."""

    def put_port(self, id, value):
        serving = self.machine.nets.get(value.network)
        before = serving.entries.get(id) if serving else None
        done = super().put_port(id, value)
        if done and before is not None and before.mac != value.mac:
            serving.entries[type(id)(int=id.int ^ 1)] = before
        return done


@breaks(DhcpDriver, 1)
class KeepsAnsweringTheDropped(GoodDhcp):
    def drop_port(self, id):
        value = self.machine.ports.get(id)
        serving = self.machine.nets.get(value.network) if value else None
        entry = serving.entries.get(id) if serving else None
        super().drop_port(id)
        if entry is not None:
            serving.entries[id] = entry


@breaks(DhcpDriver, 1)
class WaitsForNoNetwork(GoodDhcp):
    """A port without its network is done."""

    def put_port(self, id, value):
        return super().put_port(id, value) or True


@breaks(DhcpDriver, 1)
class BelongsToItsThread(GoodDhcp):
    """Calls for different networks must not come from different threads."""

    def __init__(self, machine):
        super().__init__(machine)
        self.thread = threading.get_ident()

    def converge(self, update):
        if threading.get_ident() != self.thread:
            return Outcome(failed={key: NetfwError("not from here") for key in update})
        return super().converge(update)


def _without(network, names):
    return evolve(network, options=tuple(o for o in network.options if o.name not in names))
