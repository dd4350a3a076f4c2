"""Drivers that break the contract of bindings are passed over."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, cast
from uuid import uuid4

import pytest
from attrs import evolve

from netfw.drivers.server.mechanism import (
    Binding,
    BindingRequest,
    Bound,
    Partial,
    Refused,
)
from netfw.model import NetworkId, Segment, SegmentId
from netfw.model.binding import VifDetails
from netfw.model.resource import Kind
from netfw.model.values.json_document import JsonDocument
from netfw.server.binding.algorithm import FAILURE, MAX_LEVELS, bind
from netfw.server.core.server_context import ServerContext
from tests.server.binding.answering_drivers import Answering, binding, reasons
from tests.server.l2.environment import ADMIN, PortsEnvironment


def request(env: PortsEnvironment, network: NetworkId) -> BindingRequest:
    port = env.value(env.create(network, ADMIN))
    segments = env.context.read(lambda view: view.resources.of_network(Kind.SEGMENT, network))
    value, _ = env.context.read(lambda view: view.resources.network(network))
    return BindingRequest(
        port=port, host="h1", network=value, segments=cast("tuple[Segment, ...]", segments)
    )


def test_a_driver_that_breaks_its_contract_is_passed_over(
    env: PortsEnvironment, network: NetworkId
) -> None:
    def broken(request: BindingRequest) -> Binding:
        raise RuntimeError("out of\norder")

    def leaving(request: BindingRequest) -> Binding:
        sys.exit("no switch")

    strange = Bound(segment=SegmentId(uuid4()), vif_type="x")
    drivers = (
        Answering("raising", broken),
        Answering("silent", lambda request: None),
        Answering("strange", lambda request: strange),
        Answering("leaving", leaving),
    )
    wanted = request(env, network)
    found = bind(drivers, wanted, lambda want: wanted.segments[0])
    failures = found.vif_details.other.content()[FAILURE]
    assert failures[0] == "raising: RuntimeError: out of order"
    assert failures[1] == "silent: it answered with a NoneType, which is no binding"
    assert failures[2].endswith("which was not on offer")
    assert failures[3] == "leaving: SystemExit: no switch"
    assert bind((*drivers, binding("ok")), wanted, lambda want: wanted.segments[0]).vif_type == "ok"
    none = bind((), wanted, lambda want: wanted.segments[0])
    assert none.vif_details.other == JsonDocument({FAILURE: ["no mechanism driver is loaded"]})


@pytest.mark.spec("ML2-04")
@pytest.mark.parametrize(
    "answer",
    [
        {"vif_type": None},
        {"vif_type": 7},
        {"vif_type": ""},
        {"vif_type": "two words"},
        {"vif_type": "unbound"},
        {"vif_type": "binding_failed"},
        {"vif_type": "x", "vif_details": "rubbish"},
        {"vif_type": "x", "vif_details": None},
        {"vif_type": "x", "vif_details": VifDetails(vhostuser_mode=cast(Any, "nobody"))},
        {"segment": ["x"], "vif_type": "x"},
    ],
    ids=", ".join,
)
def test_a_binding_that_cannot_be_is_a_refusal(
    context: ServerContext, answer: Mapping[str, Any]
) -> None:
    def rubbish(request: BindingRequest) -> Binding:
        return Bound(**{"segment": request.segments[0].id, **answer})

    env = PortsEnvironment(context, drivers=(Answering("rubbish", rubbish),))
    port = env.create(env.network(), ADMIN, binding__host_id="h1")
    (failures,) = reasons(port)
    assert failures.startswith("rubbish: it answered with ")


def test_a_partial_binding_without_a_segment_is_a_refusal(context: ServerContext) -> None:
    def rubbish(request: BindingRequest) -> Binding:
        return Partial(segment=request.segments[0].id, wants=cast(Any, "rubbish"))

    env = PortsEnvironment(context, drivers=(Answering("rubbish", rubbish),))
    port = env.create(env.network(), ADMIN, binding__host_id="h1")
    assert reasons(port) == ["rubbish: it answered with a request that is no segment"]


def test_levels_have_an_end(env: PortsEnvironment, network: NetworkId) -> None:
    wanted = request(env, network)
    levels: list[int] = []

    def deeper(request: BindingRequest) -> Binding:
        levels.append(request.level)
        if len(levels) > 50:
            return Refused("enough")
        return Partial(segment=request.segments[0].id, wants=request.segments[0].provider)

    drivers = tuple(Answering(f"d{number}", deeper) for number in range(MAX_LEVELS + 2))
    found = bind(drivers, wanted, lambda _: evolve(wanted.segments[0], id=SegmentId(uuid4())))
    assert max(levels) == MAX_LEVELS - 1
    assert f"more than {MAX_LEVELS} levels" in found.vif_details.other.text
