"""The plan for one network, as it is drafted.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from attrs import define, field

from netfw.drivers.dhcp import DhcpKey, DhcpNetwork, DhcpPort
from netfw.drivers.keys import NetworkKey, PortKey
from netfw.errors import InvalidInput, NetfwError
from netfw.linux.process.program import Program
from netfw.linux.service_netns.plan import plan_service_netns
from netfw.linux.service_netns.values import ObservedNetns
from netfw.model.device_names import dhcp_namespace
from netfw.model.ids import NetworkId, PortId
from netfw.plan import Operation, Stage
from netfw_drivers.dnsmasq.config.host_lease_files import (
    HostEntry,
    Lease,
    addresses_in,
    find_leases,
    read_leases,
    render_tombstone,
)
from netfw_drivers.dnsmasq.config.paths import NetworkPaths
from netfw_drivers.dnsmasq.config.render import NetworkText, render_port
from netfw_drivers.dnsmasq.config.subnet_modes import served
from netfw_drivers.dnsmasq.plan.address_conflicts import blocked_ports
from netfw_drivers.dnsmasq.plan.observed import FoundNetwork, Reload
from netfw_drivers.dnsmasq.plan.reload import ChangedPort, PendingChanges
from netfw_drivers.dnsmasq.plan.service_spec import DriverContext
from netfw_drivers.dnsmasq.plan.steps import (
    DropPort,
    ForgetLeases,
    MarkReload,
    PutNetwork,
    PutPort,
    ReleaseLease,
    RemoveTomb,
    RunServer,
    SeedLeases,
    SignalServer,
    Step,
    StopServer,
)

UNSERVED = "its network is not served on this host yet"
FEW = 200
"""For how many ports at most the first lease file is filled.  Each lease makes each later port more
expensive, and dnsmasq as it is started gives everybody his address with or without."""


def stage(*operations: Operation) -> Stage:
    return Stage(operations)


@define(kw_only=True)
class NetworkPlanner:
    """What is to be done for one network, gathered step by step."""

    id: NetworkId
    found: FoundNetwork
    terms: DriverContext
    all_leases: bool = False
    """Whether leases of nobody are looked for, too."""
    waiting: dict[DhcpKey, str] = field(factory=dict)
    refused: dict[DhcpKey, NetfwError] = field(factory=dict)
    _station: tuple[Stage, ...] = ()
    _text: NetworkText | None = None
    _program: Program | None = None
    _digest: str = ""
    _value: DhcpNetwork | None = None
    _changed: dict[PortId, ChangedPort] = field(factory=dict)
    _gone: frozenset[PortId] = frozenset()

    def serve(
        self, network: DhcpNetwork | None, ports: Mapping[PortId, DhcpPort], gone: frozenset[PortId]
    ) -> None:
        """Have *ports* served, on *network* where one is given, and those *gone* no longer."""
        shelf, found = self.found.shelf, self.found
        self._value = found.told if shelf.there else None
        if network is None and (found.blind or found.adrift) and (ports or gone):
            network = found.told  # of its files some may be gone, or its device
        if network is not None:
            self._put_network(network)
        self._gone = frozenset(port for port in gone if port in shelf.ports or port in shelf.tombs)
        if self._value is None:
            self.waiting |= {PortKey(port): UNSERVED for port in ports}
            return
        for port, value in self._told(network, ports, gone):
            self._put_port(port, value, self._owner)
        for port, value in ports.items():
            self._put_port(port, value, PortKey(port))
        self._hold_back()

    def stages(self) -> Iterator[Stage]:
        """What was gathered, in the order in which it is to be done."""
        yield from self._station
        leases = {step.lease.address: (step, owner) for step, owner in self._released()}.values()
        news = self._news()
        reload = news.reload_method() if news is not None else None
        pausing = reload is Reload.RESTART and news is not None and news.is_much
        if pausing:
            yield from self._pause()
        steps = [*self._file_steps(reload, marked=pausing)]
        forget = tuple(step.lease for step, _ in leases)
        if leases and not self._will_run():
            steps.append((ForgetLeases(self._files, forget), self._owner))
        if steps:
            yield self._stage("files", steps)
        if run := self._running(reload, forget):
            yield self._stage("dnsmasq", [(run, self._owner)])
        heard = [(step, owner) for step, owner in leases if self._is_in_range(step.lease)]
        if heard and self._will_run() and not isinstance(run, RunServer):
            yield self._stage("leases", heard)

    def _pause(self) -> Iterator[Stage]:
        """Have dnsmasq end before it reads file by file what it is to read at its start."""
        if self.found.shelf.reload is not Reload.RESTART:
            yield self._stage("files", [(MarkReload(self._files, Reload.RESTART), self._owner)])
        if self.found.process is not None:
            yield self._stage("dnsmasq", [(StopServer(self.id), self._owner)])

    @property
    def _files(self) -> NetworkPaths:
        return self.terms.files(self.id)

    @property
    def _owner(self) -> DhcpKey:
        return NetworkKey(self.id)

    def _put_network(self, network: DhcpNetwork) -> None:
        """Take *network* over, unless it cannot be rendered: then the former one stays."""
        try:
            recipe = self.terms.recipe(self.id, network)
            wanted = self.terms.station(self.id, network)
        except InvalidInput as error:
            self.refused[self._owner] = error
            return
        there = self.found.station or ObservedNetns(netns=wanted.netns)
        self._station = plan_service_netns(self._owner, wanted, there)
        self._program = recipe.program
        self._digest = self._program.digest()
        self._text, self._value = recipe.text, network

    def _told(
        self,
        network: DhcpNetwork | None,
        ports: Mapping[PortId, DhcpPort],
        gone: frozenset[PortId],
    ) -> Iterator[tuple[PortId, DhcpPort]]:
        """Ports of which the driver was told before and that a changed network concerns: all of
        them; an unchanged one only those that waited for it."""
        if network is None or self._value is not network:
            return
        changed = network != self.found.told
        for port, value in self.found.ports.items():
            concerned = changed or port not in self.found.shelf.ports
            if concerned and port not in ports and port not in gone:
                yield port, value

    def _put_port(self, port: PortId, value: DhcpPort, owner: DhcpKey) -> None:
        assert self._value is not None
        try:
            text = render_port(port, value, self._value, self.terms.settings)
        except InvalidInput as error:
            if owner == PortKey(port):
                self.refused[owner] = error
                self._gone |= {port} if self._loses(port, value) else frozenset()
            return
        if text != self.found.shelf.ports.get(port):
            self._changed[port] = ChangedPort(
                text=text, value=value, owner=owner, words=addresses_in(text.host)
            )

    def _loses(self, port: PortId, value: DhcpPort) -> bool:
        """Whether a port has what is not its own as *value*, and may be somebody else's.

        If it cannot be served as it is to be, it must not be served as it was.
        """
        former = self.found.shelf.ports.get(port)
        own = {value.mac, *(str(fixed.address) for fixed in value.fixed_ips)}
        return former is not None and bool(addresses_in(former.host) - own)

    def _hold_back(self) -> None:
        """Let those wait who want what somebody else still has."""
        changed, owner_of = self._changed, self.found.shelf.owner_of

        def loses(port: PortId) -> bool:
            return self._loses(port, changed[port].value)

        wanted = {port: new.words for port, new in changed.items()}
        for port, why in blocked_ports(wanted, owner_of, loses, self._gone).items():
            self._gone |= {port} if loses(port) else frozenset()
            if changed.pop(port).owner == PortKey(port):
                self.waiting[PortKey(port)] = why

    def _is_starting(self) -> bool:
        return self._program is not None and self._digest != self.found.process

    def _will_run(self) -> bool:
        return self._is_starting() or self.found.process is not None

    def _running(self, reload: Reload | None, forget: tuple[Lease, ...]) -> Step | None:
        """What is to be done to the process."""
        if self._is_starting() and self._program is not None:
            return RunServer(self._files, self._program, forget=forget)
        if reload is Reload.RESTART and self._value is not None:
            program = self._program or self.terms.recipe(self.id, self._value).program
            return RunServer(self._files, program, again=True, forget=forget)
        return SignalServer(self._files) if reload is not None else None

    def _news(self) -> PendingChanges | None:
        """What is to be told a dnsmasq that goes on; a network of which nothing is asked is left as
        it is."""
        is_asked = self._text is not None or self._changed or self._gone
        if not is_asked or self._is_starting() or self._value is None:
            return None
        opts = self._text.opts if self._text is not None else None
        return PendingChanges(found=self.found, changed=self._changed, gone=self._gone, opts=opts)

    def _file_steps(self, reload: Reload | None, *, marked: bool) -> Iterator[tuple[Step, DhcpKey]]:
        """Changes of files; dnsmasq reads those that it needs no telling for in this order.

        With *marked*, it is written already that dnsmasq is still to be told.
        """
        files, shelf = self._files, self.found.shelf
        anew = reload is not None or not self.found.process or self._is_starting()
        mark = Reload.RESTART if self._is_starting() and self.found.process else reload
        if mark is not None and mark is not shelf.reload and not marked:
            yield MarkReload(files, mark), self._owner
        if self._text is not None and self._value is not None and self._is_network_changed():
            put = PutNetwork(files=files, wanted=self._text, value=self._value)
            yield put, self._owner
        for port, new in self._changed.items():
            former = shelf.ports.get(port)
            put_port = PutPort(
                files=files, port=port, wanted=new.text, former=former, value=new.value
            )
            yield put_port, new.owner
        for port in sorted(self._gone & shelf.ports.keys(), key=str):
            entry = shelf.entry(port)
            tomb = None if anew or not entry.macs else render_tombstone(entry)
            yield DropPort(files=files, port=port, tomb=tomb, entry=entry), PortKey(port)
        for port in shelf.tombs if anew else ():
            yield RemoveTomb(files, port), self._owner
        if (self._is_starting() or self.found.blind) and not shelf.leases:
            few = len(shelf.ports) + len(self._changed) <= FEW
            yield SeedLeases(files, tuple(self._entries()) if few else ()), self._owner

    def _is_network_changed(self) -> bool:
        shelf, text, value = self.found.shelf, self._text, self._value
        return (
            text is None
            or value is None
            or (shelf.opts, shelf.interface, shelf.server)
            != (text.opts, text.interface, value.server.id)
        )

    def _entries(self) -> Iterator[HostEntry]:
        """Everybody who will be served."""
        shelf = self.found.shelf
        for port in shelf.ports.keys() - self._gone - self._changed.keys():
            yield shelf.entry(port)
        yield from (changed.entry for changed in self._changed.values())

    def _released(self) -> Iterator[tuple[ReleaseLease, DhcpKey]]:
        """Leases of who must not have them any more, each with whom it is given back for."""
        shelf, text = self.found.shelf, self.found.leases
        if not text:
            return
        for port in sorted(self._gone, key=str):
            former = shelf.tombs.get(port) or shelf.entry(port)
            for lease in self._leases_of(former, former):
                yield self._release(lease), PortKey(port)
        for port, changed in self._changed.items():
            if port in shelf.ports:
                former, now = shelf.entry(port), changed.entry
                lost = former.addresses - (now.addresses if former.macs == now.macs else set())
                parted = HostEntry(former.macs, frozenset(lost))
                for lease in self._leases_of(parted, former):
                    yield self._release(lease), changed.owner
        if self.all_leases:
            known = {address for entry in self._entries() for address in entry.addresses}
            known |= {address for port in self._gone for address in shelf.entry(port).addresses}
            for lease in read_leases(text):
                if lease.address not in known:
                    yield self._release(lease, stray=True), self._owner

    def _leases_of(self, entry: HostEntry, former: HostEntry) -> Iterator[Lease]:
        """The leases that whoever was *former* has on the addresses of *entry*."""
        for lease in find_leases(self.found.leases, sorted(entry.addresses, key=str)):
            if lease.address.version == 6 or lease.holder in former.macs:
                yield lease

    def _is_in_range(self, lease: Lease) -> bool:
        """Whether dnsmasq hears that *lease* is given back, as far as that is known."""
        subnets = None if self._value is None else [each for each, _ in served(self._value.subnets)]
        return subnets is None or any(lease.address in each.cidr for each in subnets)

    def _release(self, lease: Lease, *, stray: bool = False) -> ReleaseLease:
        interface = self._text.interface if self._text else self.found.shelf.interface or ""
        return ReleaseLease(
            files=self._files,
            netns=dhcp_namespace(self.id),
            device=interface.strip(),
            lease=lease,
            stray=stray,
        )

    def _stage(self, backend: str, steps: Iterable[tuple[Step, DhcpKey]]) -> Stage:
        """One stage; the lines of many steps are only made when somebody reads them."""
        return Stage(
            Operation(f"{backend}/{self.id}", _saying(step), self._owners(owner), step)
            for step, owner in steps
        )

    def _owners(self, owner: DhcpKey) -> frozenset[DhcpKey]:
        """Whom to degrade for *owner*: where nothing is asked of the network itself, those for whom
        it is touched."""
        if owner != self._owner or self._text is not None or not (self._gone or self._changed):
            return frozenset({owner})
        return frozenset(map(PortKey, self._gone | self._changed.keys()))


def _saying(step: Step) -> Callable[[], str]:
    return lambda: step.text
