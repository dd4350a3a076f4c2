"""Plan from the observed to the desired routers.  Pure.

The routers of an update follow each other; floating IPs that move to another router are removed
from the former one first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from attrs import define, evolve, field, frozen

from netfw.drivers.values.keys import AgentGatewayKey, FloatingIpKey, RouterKey
from netfw.drivers.values.router_values import (
    AgentGateway,
    FloatingIpNat,
    FullRouter,
    RouterDriverKey,
    RouterPart,
    RouterState,
)
from netfw.errors import Conflict, InvalidInput, NetfwError, PartlyInvalid
from netfw.linux.iptables.rule import Family
from netfw.linux.router_netns.plan import plan_router_netns, plan_router_removal
from netfw.linux.router_netns.values import RouterNetns
from netfw.linux.service_netns.values import ObservedNetns, why_without_ipv6
from netfw.model.values.ids import FloatingIpId, NetworkId
from netfw.plan import Operation, Plan, Stage
from netfw_drivers.linux_router.config.conntrackd import PORT
from netfw_drivers.linux_router.config.settings import RouterSettings
from netfw_drivers.linux_router.distributed.agent_gateway import gateway_netns, gateway_routes
from netfw_drivers.linux_router.distributed.local_routing import subnet_tables
from netfw_drivers.linux_router.distributed.router_parts import nat_part, part_states
from netfw_drivers.linux_router.plan.daemons.conntrackd_plan import SERVICE as CONNTRACKD
from netfw_drivers.linux_router.plan.daemons.conntrackd_plan import plan_conntrackd
from netfw_drivers.linux_router.plan.daemons.daemon_steps import StopDaemon
from netfw_drivers.linux_router.plan.daemons.delegation_plan import SERVICE as DHCLIENT
from netfw_drivers.linux_router.plan.daemons.delegation_plan import (
    left_out_prefixes,
    plan_delegation,
)
from netfw_drivers.linux_router.plan.daemons.keepalived_plan import SERVICE as KEEPALIVED
from netfw_drivers.linux_router.plan.daemons.keepalived_plan import plan_keepalived
from netfw_drivers.linux_router.plan.daemons.radvd_plan import SERVICE as RADVD
from netfw_drivers.linux_router.plan.daemons.radvd_plan import (
    RadvdStep,
    left_out_advertisements,
    plan_radvd,
    plan_withdrawals,
)
from netfw_drivers.linux_router.plan.desired_netns import DesiredRouter, DeviceName, NetnsContext
from netfw_drivers.linux_router.plan.ended_connections import (
    find_ended,
    find_gained,
    find_lost,
    parse_ended,
    plan_removals,
    render_ended,
)
from netfw_drivers.linux_router.plan.floating_ip_rules import Translations
from netfw_drivers.linux_router.plan.floating_ips import (
    FloatingIpChanges,
    RouterUpdate,
    plan_floating_ips,
    plan_local_floating_ips,
    served_families,
    sort_floating_ips,
)
from netfw_drivers.linux_router.plan.names import (
    CHAIN_OWNER,
    PartId,
    gateway_namespace,
    part_key,
    router_namespace,
)
from netfw_drivers.linux_router.plan.observed import FoundRouter, ObservedRouters
from netfw_drivers.linux_router.plan.refused_rules import without_refused_rules
from netfw_drivers.linux_router.plan.reserved_networks import ReservedNetworks
from netfw_drivers.linux_router.plan.validation import value_error

NO_GATEWAY = "its router has no gateway on this host"
NO_AGENT_GATEWAY = "there is no agent gateway to its external network on this host"


@frozen(kw_only=True)
class RouterContext:
    """What plans depend on, beside updates and observations."""

    settings: RouterSettings
    device_name: DeviceName

    def desired(self, router: PartId, state: RouterState) -> DesiredRouter:
        """Return a part of a router, whose state was validated, in terms of the kernel."""
        state = ReservedNetworks.of(state).restrict(state)
        full = state.full
        if full is None:
            assert state.local is not None, "it is the state of one part"
            full = FullRouter(interfaces=state.local.interfaces)
        netns = NetnsContext(
            device_name=self.device_name,
            random_fully=self.settings.random_fully,
            sync_port=None if self.settings.conntrackd is None else PORT,
        )
        return DesiredRouter(id=router, state=state, full=full, context=netns)

    def desired_netns(
        self,
        router: PartId,
        state: RouterState,
        found: FoundRouter,
        translations: Translations,
    ) -> RouterNetns:
        """Return the desired namespace of a router.

        :raises InvalidInput: a state that cannot be.
        :raises Exhausted: more address scopes than marks.
        """
        try:
            desired, tables = self.desired(router, state), subnet_tables(found.netns.policy_rules)
            return desired.netns(found.scope_marks, translations, tables, found.link)
        except ValueError as error:
            raise InvalidInput({str(part_key(router)): str(error)}) from error


def plan_routers(update: RouterUpdate, observed: ObservedRouters, context: RouterContext) -> Plan:
    """Plan the stages of *update*."""
    return _RouterPlanner(update, observed, context).plan()


@define
class _RouterPlanner:
    update: RouterUpdate
    observed: ObservedRouters
    context: RouterContext
    refused: dict[RouterDriverKey, NetfwError] = field(factory=dict)
    waiting: dict[RouterDriverKey, str] = field(factory=dict)
    states: dict[PartId, RouterState] = field(factory=dict)
    """The parts of the accepted routers."""
    served: dict[PartId, Translations] = field(factory=dict)
    """The floating IPs that each router has after the plan; a dropped router has none."""

    def plan(self) -> Plan:
        for key, value in self.update.put.items():
            if (error := value_error(key, value)) is not None:
                self.refused[key] = error
            elif isinstance(key, RouterKey) and isinstance(value, RouterState):
                self.states |= part_states(key.router, value)
        accepted = self.update.without(self.refused)
        changes = sort_floating_ips(accepted, self.observed)
        self.refused |= changes.refused
        stages = [each for network in self._gateways() for each in self._gateway(network)]
        gaining = self._gaining()  # those that lose a floating IP come first
        routers = changes.desired.keys() | self._routers()

        def order(part: PartId) -> tuple[bool, bool, str]:
            """Return the sort key: a part that is dropped may have the port of another one."""
            return not self._is_dropped(part), part in gaining, str(part)

        for router in sorted(routers, key=order):
            stages += self._router(router, changes)
        for network, found in sorted(self.observed.gateways.items(), key=lambda each: each[0]):
            if self._is_unwanted(AgentGatewayKey(network)):
                stages += plan_router_removal(AgentGatewayKey(network), found.netns, found.ports)
        self._wait()
        return Plan(stages, self.waiting, self.refused)

    def _gateways(self) -> list[NetworkId]:
        return sorted(key.network for key in self.update.put if isinstance(key, AgentGatewayKey))

    def _gateway(self, network: NetworkId) -> Sequence[Stage]:
        """Plan an agent gateway, before the routers that use it."""
        key = AgentGatewayKey(network)
        value, found = self.update.put[key], self.observed.gateways.get(network)
        if not isinstance(value, AgentGateway) or key in self.refused:
            return ()
        there = ObservedNetns(netns=gateway_namespace(network)) if found is None else found.netns
        try:
            wanted = gateway_netns(network, value, self.context.device_name)
            stages = plan_router_netns(key, wanted, there, CHAIN_OWNER)
        except (InvalidInput, Conflict, ValueError) as error:
            self.refused[key] = InvalidInput({str(key): str(error)})
            return ()
        routes = gateway_routes(value, wanted.ports[0].device)
        self._leave_out(key, {**routes.left_out, **_left_out_ipv6(wanted, there)})
        return stages

    def _routers(self) -> frozenset[PartId]:
        named = {key.router for key in self.update if isinstance(key, RouterKey)}
        return frozenset(named | self.states.keys() | self.observed.routers.keys())

    def _gaining(self) -> frozenset[PartId]:
        """Return the routers that get a floating IP which they do not have."""
        return frozenset(
            nat_part(value)
            for key, value in self.update.put.items()
            if isinstance(value, FloatingIpNat)
            and isinstance(key, FloatingIpKey)
            and key.floating_ip not in self._found(nat_part(value)).translations
        )

    def _found(self, router: PartId) -> FoundRouter:
        found = self.observed.routers.get(router)
        return found or FoundRouter(netns=ObservedNetns(netns=router_namespace(router)))

    def _router(self, router: PartId, changes: FloatingIpChanges) -> list[Stage]:
        key, found = part_key(router), self._found(router)
        floating_ips = changes.desired.get(router, {})
        if self._is_dropped(router):
            return self._removal(router, found)
        state = self.states.get(router)
        if state is not None:
            try:
                return self._whole(router, state, floating_ips, found)
            except (InvalidInput, Conflict) as error:
                self.refused[key] = error
        return self._floating_ips(router, floating_ips, changes.concerned.get(router, ()), found)

    def _is_dropped(self, part: PartId) -> bool:
        key = part_key(part)
        if key in self.update.drop or (key in self.update.put and key not in self.refused):
            return part not in self.states
        return self._is_unwanted(key)

    def _is_unwanted(self, key: RouterDriverKey) -> bool:
        if key in self.update.drop:
            return True
        return self.update.complete and key not in self.update.put and key not in self.update.keep

    def _removal(self, router: PartId, found: FoundRouter) -> list[Stage]:
        """Plan the removal of a router.

        Another host may have a highly available one from now on: without an address, the last
        advertisement of radvd withdraws nothing.
        """
        stages: list[Stage] = []
        if not found.dhclient.is_absent:
            stages.append(_stage(router, StopDaemon(DHCLIENT, router)))
        if not found.keepalived.is_absent:
            stages.append(_stage(router, StopDaemon(KEEPALIVED, router)))
        if not found.conntrackd.is_absent:
            stages.append(_stage(router, StopDaemon(CONNTRACKD, router)))
        if not found.is_ha:
            stages += [_stage(router, step) for step in plan_withdrawals(router, (), found)]
        if not found.radvd.is_absent:
            stages.append(_stage(router, StopDaemon(RADVD, router)))
        return [*stages, *plan_router_removal(part_key(router), found.netns, found.ports)]

    def _floating_ips(
        self,
        router: PartId,
        floating_ips: Translations,
        concerned: Collection[FloatingIpId],
        found: FoundRouter,
    ) -> list[Stage]:
        """Plan the floating IPs of a router that is not in the update, or is refused.

        Those with rules are served; of the others, the update names each.
        """
        if found.is_local and found.local is not None and part_key(router) not in self.refused:
            return self._whole(router, found.local, floating_ips, found)
        families, served = served_families(found), dict(floating_ips)
        for id in concerned:
            if id in served and served[id].family not in families:
                del served[id]
        self.served[router] = served
        if found.is_local:
            prepared = self._prepared(found)
            return [*plan_local_floating_ips(router, served, concerned, found, prepared)]
        settings = self.context.settings
        return [*plan_floating_ips(router, served, concerned, found, settings)]

    def _whole(
        self, router: PartId, state: RouterState, floating_ips: Translations, found: FoundRouter
    ) -> list[Stage]:
        devices = self.context.desired(router, state).port_devices()
        id, keep = part_key(router).router, self.update.keep
        state = without_refused_rules(id, state, keep, found, devices)
        desired = self.context.desired(router, state)
        families = desired.gateway_families() if state.local is None else _link_families(found)
        served = self._served(floating_ips, families, state)
        wanted = self.context.desired_netns(router, state, found, served)
        after = desired.translated(served)
        own = desired.own_gateway_addresses()
        ended = {*parse_ended(found.mirror.chains), *find_ended(found.translated, after, own)}
        ended |= {*find_lost(found.translated, after)} if found.is_ha else set()
        ended |= {*find_gained(found.translations, served)} if state.local else set()
        wanted = evolve(wanted, chains={**wanted.chains, **render_ended(router, ended)})
        present = {each.device for each in wanted.ports}
        withdrawals = [] if found.is_standby else [*plan_withdrawals(router, present, found)]
        radvd = plan_radvd(desired, found.radvd, self.context.settings)
        election = plan_keepalived(desired, wanted, served, found, self.context.settings)
        conntrackd = [*plan_conntrackd(desired, found, self.context.settings)]
        delegation = [*plan_delegation(desired, found, self.context.settings)]
        ending = [step for step in delegation if isinstance(step, StopDaemon)]
        running = [step for step in delegation if step not in ending]
        self.served[router], prepared = served, self._prepared(found)
        left_out = {**desired.routes().left_out, **left_out_advertisements(desired)}
        left_out |= {**left_out_prefixes(desired), **ReservedNetworks.of(state).left_out(state)}
        self._leave_out(part_key(router), {**left_out, **_left_out_ipv6(wanted, found.netns)})
        return [
            *(_stage(router, step) for step in (*ending, *withdrawals, *election.before)),
            *(() if found.link is None else found.link.plan_withdrawals(served, prepared)),
            *plan_router_netns(part_key(router), election.wanted, election.found, CHAIN_OWNER),
            *(_stage(router, step) for step in election.after),
            *plan_removals(router, wanted.netns, ended),
            *(() if found.link is None else found.link.plan_gateway_end(served, prepared)),
            *(_stage(router, step) for step in (*radvd, *conntrackd, *running)),
        ]

    def _served(
        self, floating_ips: Translations, families: frozenset[Family], state: RouterState
    ) -> Translations:
        """Return the floating IPs of *families* that are on a network of the router."""
        foreign = self._of_other_networks(state)
        return {
            id: each
            for id, each in floating_ips.items()
            if each.family in families and id not in foreign
        }

    def _prepared(self, found: FoundRouter) -> frozenset[FloatingIpId]:
        """Return the floating IPs that are only prepared; those that are not named stay so.

        One whose route was refused stays without it.
        """
        named = {
            key.floating_ip: value.prepared
            for key, value in self.update.put.items()
            if isinstance(key, FloatingIpKey) and isinstance(value, FloatingIpNat)
        }
        lacking = () if found.link is None else found.link.without_route(found.translations)
        refused = {id for id in lacking if FloatingIpKey(id) in self.update.keep}
        prepared = {id for id, prepared in named.items() if prepared}
        return (found.prepared - named.keys()) | prepared | refused

    def _of_other_networks(self, state: RouterState) -> frozenset[FloatingIpId]:
        """Return the floating IPs whose external network is not that of a local part."""
        if state.local is None:
            return frozenset()
        network = state.local.external_network
        return frozenset(
            key.floating_ip
            for key, value in self.update.put.items()
            if isinstance(key, FloatingIpKey)
            and isinstance(value, FloatingIpNat)
            and value.external_network != network
        )

    def _leave_out(self, key: RouterDriverKey, left_out: Mapping[str, str]) -> None:
        """Have a key fail partly, by what is left out of it or of a part of it."""
        error = self.refused.get(key)
        if (
            left_out
            and key in self.update.put
            and (error is None or isinstance(error, PartlyInvalid))
        ):
            others = {} if error is None else error.problems
            self.refused[key] = PartlyInvalid({**others, **left_out})

    def _wait(self) -> None:
        """Have the floating IPs of the update wait that their routers do not serve."""
        for key, value in self.update.put.items():
            if isinstance(key, FloatingIpKey) and isinstance(value, FloatingIpNat):
                served = self.served.get(nat_part(value), {})
                if key not in self.refused and key.floating_ip not in served:
                    is_local = value.part is RouterPart.LOCAL
                    self.waiting[key] = NO_AGENT_GATEWAY if is_local else NO_GATEWAY


def _link_families(found: FoundRouter) -> frozenset[Family]:
    """Return the families for which a local part can have floating IPs."""
    return frozenset({Family.IPV4} if found.link is not None else ())


def _left_out_ipv6(wanted: RouterNetns, found: ObservedNetns) -> dict[str, str]:
    """Return the ports whose IPv6 addresses and routes are left out, each with the reason."""
    return {
        f"IPv6 of port {port.port}": why
        for port in wanted.ports
        if any(
            each.version == 6 and not each.is_link_local
            for each in (*port.addresses, *port.virtual_addresses)
        )
        and (why := why_without_ipv6(port, found)) is not None
    }


def _stage(router: PartId, step: RadvdStep) -> Stage:
    return Stage((Operation(step.backend, step.text, frozenset({part_key(router)}), step),))
