"""Routes that the kernel refused, such as by routes of a routing daemon.  Pure."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve, field, frozen

from netfw.drivers.values.router_values import RouterDriverKey, RouterDriverValue, RouterState
from netfw.errors import NetfwError, OperationRefused, PartlyInvalid
from netfw.linux.ip.operations import AddRoute
from netfw.linux.ip.values import IpRoute
from netfw.linux.service_netns.steps import ChangeNetwork
from netfw.plan import Operation, Outcome, Update

RouterUpdate = Update[RouterDriverKey, RouterDriverValue]


@frozen(kw_only=True)
class PossibleUpdate:
    """An update without the routes that the kernel refused."""

    update: RouterUpdate
    left_out: Mapping[RouterDriverKey, Mapping[str, str]] = field(factory=dict)
    """By router and by the route as text: why it is left out."""

    def without_refused(self, failed: Mapping[RouterDriverKey, NetfwError]) -> PossibleUpdate:
        """Leave out the routes that made their routers fail; the same if there are none."""
        put = dict(self.update.put)
        left_out = dict(self.left_out)
        for key, error in failed.items():
            state = put.get(key)
            if not isinstance(error, OperationRefused) or not isinstance(state, RouterState):
                continue
            for operation, reason in error.reasons.items():
                added = _added_route(operation)
                if added is None:
                    continue
                users = _refused_of_users(state, added)
                gateways = _refused_of_gateway(users.state, added)
                state = gateways.state
                if texts := dict.fromkeys((*users.texts, *gateways.texts), reason):
                    left_out[key] = {**left_out.get(key, {}), **texts}
            put[key] = state
        if left_out == self.left_out:
            return self
        return PossibleUpdate(update=evolve(self.update, put=put), left_out=left_out)

    def report(self, outcome: Outcome[RouterDriverKey]) -> Outcome[RouterDriverKey]:
        """Return *outcome* with the routes that are left out."""
        failed = dict(outcome.failed)
        for key, routes in self.left_out.items():
            error = failed.get(key)
            if error is None:
                failed[key] = PartlyInvalid(routes)
            elif isinstance(error, PartlyInvalid):
                failed[key] = PartlyInvalid({**error.problems, **routes})
        waiting = {key: why for key, why in outcome.waiting.items() if key not in failed}
        return evolve(outcome, done=outcome.done - failed.keys(), failed=failed, waiting=waiting)


def left_out_routes(state: RouterState, refused: Mapping[IpRoute, str]) -> dict[str, str]:
    """Return the routes of a router, as text, that the kernel *refused*, each with the reason."""
    left_out: dict[str, str] = {}
    for route, reason in refused.items():
        users, gateways = _refused_of_users(state, route), _refused_of_gateway(state, route)
        left_out |= dict.fromkeys((*users.texts, *gateways.texts), reason)
    return left_out


@frozen
class _WithoutRoute:
    """A state without a route, and the texts of what is left out."""

    state: RouterState
    texts: tuple[str, ...] = ()


def _refused_of_users(state: RouterState, refused: IpRoute) -> _WithoutRoute:
    hops = {hop.via for hop in refused.hops}
    gone = [
        each
        for each in state.routes
        if each.destination == refused.destination and each.nexthop in hops
    ]
    routes = tuple(each for each in state.routes if each not in gone)
    texts = tuple(f"route to {each.destination} via {each.nexthop}" for each in gone)
    return _WithoutRoute(evolve(state, routes=routes), texts)


def _refused_of_gateway(state: RouterState, refused: IpRoute) -> _WithoutRoute:
    """Leave out a default route, or a subnet on the link."""
    part = state.full or state.central
    gateway = None if part is None else part.gateway
    if gateway is None:
        return _WithoutRoute(state)
    hops = {hop.via for hop in refused.hops}
    is_default = refused.destination.prefixlen == 0
    gone = [hop for hop in gateway.next_hops if is_default and hop in hops]
    is_onlink = hops == {None}
    subnets = [each for each in gateway.onlink_subnets if is_onlink and each == refused.destination]
    less = evolve(
        gateway,
        next_hops=tuple(each for each in gateway.next_hops if each not in gone),
        onlink_subnets=tuple(each for each in gateway.onlink_subnets if each not in subnets),
    )
    texts = [
        *(f"default route via {each}" for each in gone),
        *(f"route to {each} of the external network" for each in subnets),
    ]
    full = None if state.full is None else evolve(state.full, gateway=less)
    central = None if state.central is None else evolve(state.central, gateway=less)
    return _WithoutRoute(evolve(state, full=full, central=central), tuple(texts))


def _added_route(operation: object) -> IpRoute | None:
    step = operation.payload if isinstance(operation, Operation) else None
    if not isinstance(step, ChangeNetwork) or not isinstance(step.operation, AddRoute):
        return None
    return step.operation.route
