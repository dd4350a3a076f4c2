"""The contexts that methods of a neutron-lib driver receive, made from values of netfw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from attrs import frozen
from neutron_lib.plugins.ml2 import api

from netfw.drivers.server.change import Change
from netfw.drivers.server.mechanism import BindingRequest
from netfw.model.agent import Agent
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.resource import Resource
from netfw.model.segment import Segment
from netfw.model.subnet import Subnet
from netfw.model.wire import render
from netfw_drivers.neutron_adapter.calls import DriverCall, bound_segment, top_segment
from netfw_drivers.neutron_adapter.current_call import refuse
from netfw_drivers.neutron_adapter.plugin_context import CORE_PLUGIN, PluginContext

Body = dict[str, Any]


@frozen(kw_only=True)
class ChangeContext:
    """The network of a resource, and the request that changes it."""

    name: str
    """Name of the driver."""
    network: Network
    segments: tuple[Segment, ...]
    plugin_context: PluginContext

    @classmethod
    def of_change(cls, name: str, change: Change, network: Network) -> ChangeContext:
        """Return the environment of a committed or pending change."""
        context = PluginContext(change.request_id)
        return cls(name=name, network=network, segments=change.segments, plugin_context=context)

    @classmethod
    def of_request(cls, name: str, request: BindingRequest) -> ChangeContext:
        """Return the environment of a port that is being bound."""
        context = PluginContext(subnets=request.subnets)
        segments = request.segments
        return cls(name=name, network=request.network, segments=segments, plugin_context=context)


@frozen(kw_only=True)
class BindingResult:
    """The call by which a driver binds a port, fully or partly; unchecked."""

    segment_id: str
    vif_type: object = ""
    vif_details: object = None
    status: str | None = None
    next_segment: Mapping[str, Any] | None = None
    """The segment for the next level; ``None``: the port is bound."""


class _ResourceContext:
    """What the contexts of all resources have in common."""

    def __init__(self, environment: ChangeContext, current: Resource, original: Resource | None):
        self._environment = environment
        self._current = _body(current)
        self._original = None if original is None else _body(original)
        self._plugin = CORE_PLUGIN
        self._plugin_context = self.plugin_context = environment.plugin_context

    @property
    def current(self) -> Body:
        """The resource as the API shows it."""
        return self._current

    @property
    def original(self) -> Body | None:
        """The resource before an update."""
        return self._original


class AdaptedNetworkContext(_ResourceContext, api.NetworkContext):  # type: ignore[misc]
    """A network and its segments."""

    @property
    def network_segments(self) -> list[Body]:
        return [_body(segment) for segment in self._environment.segments]


class AdaptedSubnetContext(_ResourceContext, api.SubnetContext):  # type: ignore[misc]
    """A subnet and its network."""

    @property
    def network(self) -> AdaptedNetworkContext:
        return _network_context(self._environment)


class AdaptedPortContext(_ResourceContext, api.PortContext):  # type: ignore[misc]
    """A port, its network, and how it is bound."""

    def __init__(self, environment: ChangeContext, port: Port, former: Port | None) -> None:
        super().__init__(environment, port, former)
        self._port, self._former = port, former

    @property
    def status(self) -> str:
        return str(self._port.status)

    @property
    def original_status(self) -> str | None:
        return None if self._former is None else str(self._former.status)

    @property
    def network(self) -> AdaptedNetworkContext:
        return _network_context(self._environment)

    @property
    def binding_levels(self) -> Sequence[Body]:
        refuse("binding_levels, the drivers of each level of a binding,")

    @property
    def original_binding_levels(self) -> Sequence[Body]:
        refuse("original_binding_levels, the drivers of each level of a binding,")

    @property
    def top_bound_segment(self) -> Body | None:
        return self._top(self._port)

    @property
    def original_top_bound_segment(self) -> Body | None:
        return self._top(self._former)

    @property
    def bottom_bound_segment(self) -> Body | None:
        return self._bottom(self._port)

    @property
    def original_bottom_bound_segment(self) -> Body | None:
        return self._bottom(self._former)

    @property
    def host(self) -> str:
        return self._port.binding.host

    @property
    def original_host(self) -> str | None:
        return None if self._former is None else self._former.binding.host

    @property
    def vif_type(self) -> str:
        return self._port.binding.vif_type

    @property
    def original_vif_type(self) -> str | None:
        return None if self._former is None else self._former.binding.vif_type

    @property
    def vif_details(self) -> Body:
        return dict(self.current["binding:vif_details"])

    @property
    def original_vif_details(self) -> Body | None:
        return None if self._original is None else dict(self._original["binding:vif_details"])

    @property
    def segments_to_bind(self) -> list[Body] | None:
        return None

    def host_agents(self, agent_type: str) -> list[Body]:
        refuse("host_agents outside of bind_port")

    def set_binding(
        self, segment_id: str, vif_type: str, vif_details: Body, status: str | None = None
    ) -> None:
        refuse("set_binding outside of bind_port")

    def continue_binding(self, segment_id: str, next_segments_to_bind: Sequence[Body]) -> None:
        refuse("continue_binding outside of bind_port")

    def allocate_dynamic_segment(self, segment: Body) -> Body:
        refuse("allocate_dynamic_segment outside of bind_port")

    def release_dynamic_segment(self, segment_id: str) -> None:
        """Accept the call: netfw releases a dynamic segment with the last port that uses it."""

    def _top(self, port: Port | None) -> Body | None:
        if port is None:
            return None
        at = self._environment
        return _maybe_body(top_segment(at.name, port, at.network, at.segments))

    def _bottom(self, port: Port | None) -> Body | None:
        if port is None:
            return None
        at = self._environment
        return _maybe_body(bound_segment(at.name, port, at.segments))


class BindingPortContext(AdaptedPortContext):
    """A port that is being bound: the driver calls it back with the result."""

    def __init__(self, environment: ChangeContext, port: Port, agents: Sequence[Agent]) -> None:
        super().__init__(environment, port, None)
        self._agents = agents
        self.result: BindingResult | None = None

    @property
    def segments_to_bind(self) -> list[Body]:
        return [_body(segment) for segment in self._environment.segments]

    def host_agents(self, agent_type: str) -> list[Body]:
        return [dict(render(agent)) for agent in self._agents if agent.agent_type == agent_type]

    def set_binding(
        self, segment_id: str, vif_type: str, vif_details: Body, status: str | None = None
    ) -> None:
        self.result = BindingResult(
            segment_id=str(segment_id), vif_type=vif_type, vif_details=vif_details, status=status
        )

    def allocate_dynamic_segment(self, segment: Body) -> Body:
        """Return the segment as it is requested: it is allocated after the driver returns."""
        empty: Body = {api.PHYSICAL_NETWORK: None, api.SEGMENTATION_ID: None}
        return {**empty, **segment, api.ID: str(uuid4())}

    def continue_binding(self, segment_id: str, next_segments_to_bind: Sequence[Body]) -> None:
        if len(next_segments_to_bind) != 1:
            refuse(f"continue_binding with {len(next_segments_to_bind)} segments instead of one")
        self.result = BindingResult(
            segment_id=str(segment_id), next_segment=dict(next_segments_to_bind[0])
        )


def make_context(environment: ChangeContext, call: DriverCall) -> _ResourceContext:
    """Return the context of *call*."""
    current, original = call.current, call.original
    if isinstance(current, Port):
        former = original if isinstance(original, Port) else None
        return AdaptedPortContext(environment, current, former)
    kind = AdaptedSubnetContext if isinstance(current, Subnet) else AdaptedNetworkContext
    return kind(environment, current, original)


def _network_context(environment: ChangeContext) -> AdaptedNetworkContext:
    return AdaptedNetworkContext(environment, environment.network, None)


def _body(resource: Resource) -> Body:
    return dict(render(resource))


def _maybe_body(segment: Segment | None) -> Body | None:
    return None if segment is None else _body(segment)
