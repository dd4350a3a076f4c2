"""A fake router driver that keeps every promise, on a host in memory."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv6Address
from typing import Any, cast

from attrs import evolve, frozen

from netfw.drivers.base import DriverInfo
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.reconciler import Checkpoint, Reconciler
from netfw.drivers.router import RouterCapability, RouterDriver
from netfw.drivers.support.entry_validation import entry_error
from netfw.drivers.values.keys import FloatingIpKey, RouterKey
from netfw.drivers.values.pipeline_grant import Grant, GrantRequest, RegisterGrant
from netfw.drivers.values.router_values import (
    FloatingIpNat,
    RouterDriverEntry,
    RouterDriverKey,
    RouterDriverValue,
    RouterPart,
    RouterPort,
    RouterState,
    RouterStatus,
)
from netfw.errors import (
    ConfigError,
    Conflict,
    NetfwError,
    NotFound,
    NotSupported,
    OperationRefused,
    PartlyInvalid,
)
from netfw.model.values.address import link_local
from netfw.model.values.ids import FloatingIpId, RouterId
from netfw.plan import Operation, Plan, Stage, Update
from tests.conformance.router.fake_prefixes import FakePrefixClient
from tests.conformance.router.fake_router_backend import FakeRouterBackend

MARKS = 32

Change = tuple[str, RouterDriverKey, Any]
"""A verb, the key and the value that is put."""


@frozen
class Observed:
    routers: Mapping[RouterId, RouterState]
    nat: Mapping[FloatingIpId, FloatingIpNat]
    wired: frozenset
    foreign: frozenset


class FakeRouterDriver(
    FakePrefixClient, RouterDriver, Reconciler[RouterDriverKey, RouterDriverValue, Observed]
):
    VERSION = 2

    def __init__(self, backend: FakeRouterBackend) -> None:
        self.backend = backend
        self.grants: dict[str, Grant] = {}
        self.requests: dict[str, GrantRequest] = {}
        self.start_client()

    @classmethod
    def from_conf(cls, options, host):
        return cls(host.share(FakeRouterBackend, FakeRouterBackend))

    def describe(self) -> DriverInfo[HostCapability | RouterCapability]:
        own = {RouterCapability.HA, RouterCapability.PREFIX_DELEGATION}
        return DriverInfo("fake", {HostCapability.PLAN, HostCapability.WATCH, *own})

    def status(self, router: RouterId) -> RouterStatus:
        self.backend.check_online()
        if router not in self.backend.routers:
            raise NotFound(f"router {router} is not on this host")
        devices = {port.id: f"qr-{port.id}"[:14] for port in self.backend.all_ports(router)}
        namespace = self.namespace_of(router, RouterPart.FULL)
        role = self.backend.roles.get(router)
        return RouterStatus(namespaces={RouterPart.FULL: namespace}, devices=devices, role=role)

    def unwired_ports(self, router: RouterId) -> frozenset:
        return frozenset(port.id for port in self.backend.all_ports(router)) - self.backend.wired

    def namespace_of(self, router: RouterId, part: RouterPart) -> str | None:
        return f"qrouter-{router}"

    def grant(self, request: GrantRequest) -> Grant:
        if request.meters or request.tables or request.registers:
            raise NotSupported("a router has marks alone")
        if self.requests.get(request.owner) == request:
            return self.grants[request.owner]
        first = sum(mark.bits for each in self.grants.values() for mark in each.marks.values())
        marks = {}
        for mark in request.marks:
            if first + mark.bits > MARKS:
                raise ConfigError(f"no mark is left: {', '.join(self.grants)} have them")
            marks[mark.name] = RegisterGrant(register=None, first=first, bits=mark.bits)
            first += mark.bits
        grant = Grant(
            owner=request.owner, cookie=0, cookie_mask=0, prefix=f"x-{request.owner}", marks=marks
        )
        self.requests[request.owner], self.grants[request.owner] = request, grant
        return grant

    def watch(self, sink) -> None:
        def handle(event) -> None:
            self.handle_event(event)
            sink(event)

        self.backend.sinks.append(handle)
        self.watch_prefixes(sink)

    def handle_event(self, event) -> None:
        """Announce floating IPs whose gateway is wired now."""
        for key in getattr(event, "keys", ()):
            nat = self.backend.nat.get(getattr(key, "floating_ip", None))
            if nat is not None:
                self.announce(nat.router, nat.floating_address)

    def close(self) -> None:
        self.backend.sinks.clear()
        self.backend.lease_watchers.clear()

    def present(self) -> frozenset[RouterDriverKey]:
        self.backend.check_online()
        routers = {RouterKey(router) for router in self.backend.routers}
        return frozenset({*routers, *(FloatingIpKey(each) for each in self.backend.nat)})

    def observe(self, scope) -> Observed:
        self.backend.check_online()
        return Observed(
            dict(self.backend.routers),
            dict(self.backend.nat),
            frozenset(self.backend.wired),
            frozenset(self.backend.foreign),
        )

    def plan(self, update: Update[RouterDriverKey, RouterDriverValue], observed: Observed) -> Plan:
        refused = self.refusals(update, observed)
        routers = {
            key: self.without_refused(value, update.keep, observed.routers.get(key.router))
            for key, value in update.put.items()
            if isinstance(key, RouterKey) and key not in refused
        }
        partly = {
            key: PartlyInvalid({str(each): "cannot be" for each in left_out})
            for key, value in routers.items()
            if (left_out := [*self.impossible_routes(value), *self.refused_subjects(value)])
        }
        routers = {
            key: self.without_subjects(self.without_routes(value), self.refused_subjects(value))
            for key, value in routers.items()
        }
        nat = {
            key: value
            for key, value in update.put.items()
            if isinstance(key, FloatingIpKey) and key not in refused
        }
        waiting = self.waiting(nat, routers, observed)
        work = [self.operation("remove", key) for key in self.removed(update, observed)]
        work += [
            self.operation("put", key, value)
            for key, value in routers.items()
            if observed.routers.get(key.router) != value
        ]
        work += [
            self.operation("put", key, value)
            for key, value in nat.items()
            if observed.nat.get(key.floating_ip) != value
            and waiting.get(key) != "its router has no gateway here"
        ]
        stages = [Stage((operation,)) for operation in work]
        return Plan(stages=stages, refused={**partly, **refused}, waiting=waiting)

    def impossible_routes(self, state: RouterState) -> list:
        gateway = state.full.gateway
        ports = (*state.full.interfaces, *(() if gateway is None else (gateway.port,)))
        networks = [face.network for port in ports for face in port.addresses]
        return [each for each in state.routes if not any(each.nexthop in near for near in networks)]

    def without_routes(self, state: RouterState) -> RouterState:
        """Return *state* without impossible routes."""
        gone = self.impossible_routes(state)
        return evolve(state, routes=tuple(each for each in state.routes if each not in gone))

    def without_refused(self, state, keep, present: RouterState | None) -> RouterState:
        """Return *state*, with the rules of floating IPs that are left as they are."""
        had = () if present is None else present.contributions
        in_force = {rule for each in had for rule in each.rules}
        contributions = tuple(
            evolve(
                each,
                rules=tuple(
                    rule
                    for rule in each.rules
                    if FloatingIpKey(rule.floating_ip) not in keep or rule in in_force
                ),
            )
            for each in state.contributions
        )
        return evolve(state, contributions=contributions)

    def refused_subjects(self, state) -> list[str]:
        """Return the subjects of the rules of *state* that the host refuses."""
        refused = {f"{address}/32" for address in self.backend.refused}
        rules = (rule for each in state.contributions for rule in each.rules)
        return [rule.subject for rule in rules if rule.subject and refused & {*rule.words}]

    def without_subjects(self, state, subjects) -> RouterState:
        contributions = tuple(
            evolve(each, rules=tuple(rule for rule in each.rules if rule.subject not in subjects))
            for each in state.contributions
        )
        return evolve(state, contributions=contributions)

    def refusals(self, update, observed) -> dict[RouterDriverKey, NetfwError]:
        refused: dict[RouterDriverKey, NetfwError] = {}
        for key, value in update.put.items():
            error = entry_error(RouterDriverEntry, key, value)
            if error is None and not self.supports(value):
                error = NotSupported("distributed routers")
            taken = error is None and isinstance(value, RouterState)
            if taken and self.ports_of(value) & observed.foreign:
                error = Conflict("a device of the router belongs to another program")
            if error is not None:
                refused[key] = error
        return refused

    def supports(self, value: RouterDriverValue) -> bool:
        if isinstance(value, RouterState):
            return value.full is not None
        return isinstance(value, FloatingIpNat) and value.part is RouterPart.FULL

    def ports_of(self, state: RouterState) -> frozenset:
        gateway = state.full.gateway
        ports: tuple[RouterPort, ...] = state.full.interfaces
        return frozenset(p.id for p in (*ports, *(() if gateway is None else (gateway.port,))))

    def waiting(self, nat, routers, observed) -> dict[RouterDriverKey, str]:
        waits = {}
        for key, value in nat.items():
            state = routers.get(RouterKey(value.router), observed.routers.get(value.router))
            if state is None or state.full.gateway is None:
                waits[key] = "its router has no gateway here"
            elif state.full.gateway.port.id not in observed.wired:
                waits[key] = "the gateway is not wired"
        return waits

    def removed(self, update, observed) -> list[RouterDriverKey]:
        routers = {RouterKey(each) for each in observed.routers}
        nat = {FloatingIpKey(each) for each in observed.nat}
        gone = update.drop & (routers | nat)
        if update.complete:
            gone |= (routers | nat) - update.put.keys() - update.keep
        gone = {*gone, *self.orphans(update, observed, gone)}
        return sorted(gone, key=lambda key: (isinstance(key, RouterKey), str(key)))

    def orphans(self, update, observed, gone) -> set[FloatingIpKey]:
        """Return floating IPs whose router goes, or loses its gateway."""
        lost = {key.router for key in gone if isinstance(key, RouterKey)}
        for key, value in update.put.items():
            if isinstance(value, RouterState) and value.full and self.lacks_gateway(value):
                lost.add(key.router)
        return {FloatingIpKey(id) for id, nat in observed.nat.items() if nat.router in lost}

    def lacks_gateway(self, state: RouterState) -> bool:
        return state.full.gateway is None

    def operation(self, verb, key, value=None) -> Operation:
        return Operation("fake", f"{verb} {key}", frozenset({key}), (verb, key, value))

    def apply(self, plan: Plan, checkpoint: Checkpoint) -> None:
        for stage in plan.stages:
            self.backend.check_online()
            for operation in stage.operations:
                self.execute(operation)
            self.backend.probe()
            checkpoint(stage)

    def execute(self, operation: Operation) -> None:
        verb, key, value = cast(Change, operation.payload)
        if isinstance(key, RouterKey):
            self.put_router(operation, key.router, value)
        elif verb == "remove":
            self.remove_nat(key.floating_ip)
        else:
            self.put_nat(operation, key.floating_ip, value)

    def put_router(self, operation, router: RouterId, state: RouterState | None) -> None:
        backend = self.backend
        if state is not None and self.ports_of(state) & backend.foreign:
            raise OperationRefused({operation: "a device of the router is taken"})
        self.check_rules(operation, router, state)
        before = self.gateway_addresses(router)
        if state is None:
            del backend.routers[router]
        else:
            self.withdraw(router, state)
            backend.sources |= {port.id: self.source(port) for port in state.full.interfaces}
            self.write_router(router, state)
        backend.dead.discard(router)
        self.request_prefixes(router, state)
        backend.fabric.elect()
        after = self.gateway_addresses(router)
        self.end_connections(router, before - after)
        for address in after - before:
            self.announce(router, address)

    def check_rules(self, operation, router: RouterId, state: RouterState | None) -> None:
        refused = {f"{address}/32" for address in self.backend.refused}
        for rule in (r for each in state.contributions for r in each.rules) if state else ():
            if refused & {*rule.words}:
                own = rule.floating_ip
                owner = RouterKey(router) if own is None else FloatingIpKey(own)
                refusal = evolve(operation, owners={owner})
                raise OperationRefused({refusal: "the rule is refused"})

    def withdraw(self, router: RouterId, state: RouterState) -> None:
        """Withdraw the prefixes that are advertised no more."""
        had = self.backend.routers.get(router)
        before = {} if had is None else {port.id: port for port in had.full.interfaces}
        for port in state.full.interfaces:
            if port.id in before:
                gone = self.prefixes(before[port.id]) - self.prefixes(port)
                known = self.backend.withdrawn.get(port.id, set())
                self.backend.withdrawn[port.id] = (known | gone) - self.prefixes(port)

    def source(self, port: RouterPort) -> IPv6Address:
        """Return the source of advertisements."""
        return link_local(port.mac)

    def prefixes(self, port: RouterPort) -> set:
        return {subnet.cidr for subnet in port.subnets if subnet.ipv6_ra_mode}

    def write_router(self, router: RouterId, state: RouterState) -> None:
        self.backend.routers[router] = state

    def gateway_addresses(self, router: RouterId) -> set:
        gateway = self.backend.gateway_port(router)
        return set() if gateway is None else set(self.backend.outside_addresses(router))

    def put_nat(self, operation, id: FloatingIpId, value: FloatingIpNat) -> None:
        if value.floating_address in self.backend.refused:
            raise OperationRefused({operation: "the rule is refused"})
        if id in self.backend.nat:
            self.remove_nat(id)
        self.backend.nat[id] = value
        self.end_connections(value.router, {value.fixed_address})
        if not value.prepared:
            self.announce(value.router, value.floating_address)

    def remove_nat(self, id: FloatingIpId) -> None:
        gone = self.backend.nat.pop(id)
        self.end_connections(gone.router, {gone.floating_address})

    def end_connections(self, router: RouterId, addresses) -> None:
        for address in addresses:
            self.backend.end_streams(router, address)

    def announce(self, router: RouterId, address) -> None:
        if self.backend.is_active(router):
            self.backend.announce(self.backend.gateway_port(router), address)

    def advertised(self, port: RouterPort) -> bool:
        """Return whether a process advertises subnets on *port*."""
        return any(subnet.ipv6_ra_mode for subnet in port.subnets)
