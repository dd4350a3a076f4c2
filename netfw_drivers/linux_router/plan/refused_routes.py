"""Routes of users that the kernel refused, such as by routes of a routing daemon.  Pure."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve, field, frozen

from netfw.drivers.values.router_values import RouterDriverKey, RouterDriverValue, RouterState
from netfw.errors import NetfwError, OperationRefused, PartlyInvalid
from netfw.linux.ip.operations import AddRoute
from netfw.linux.service_netns.steps import ChangeNetwork
from netfw.model.route import Route
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
            routes = list(state.routes)
            for operation, reason in error.reasons.items():
                for each in [each for each in routes if _is_added(each, operation)]:
                    routes.remove(each)
                    text = f"route to {each.destination} via {each.nexthop}"
                    left_out[key] = {**left_out.get(key, {}), text: reason}
            put[key] = evolve(state, routes=tuple(routes))
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


def _is_added(route: Route, operation: object) -> bool:
    step = operation.payload if isinstance(operation, Operation) else None
    if not isinstance(step, ChangeNetwork) or not isinstance(step.operation, AddRoute):
        return False
    added = step.operation.route
    hops = {hop.via for hop in added.hops}
    return route.destination == added.destination and route.nexthop in hops
