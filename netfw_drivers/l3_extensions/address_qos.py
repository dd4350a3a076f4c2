"""Limits that QoS policies set for addresses of routers.  Pure."""

from __future__ import annotations

from collections.abc import Iterable

from netfw.drivers.l3_extension import ExtendedRouter
from netfw.drivers.values.router_values import Gateway
from netfw.model.qos import BandwidthLimit, QosPolicy, QosRule
from netfw.model.resource import Resource
from netfw.model.values.ids import QosPolicyId


def find_policy(id: QosPolicyId | None, related: Iterable[Resource]) -> QosPolicy | None:
    """Return the policy of this id, if it is known."""
    policies = (each for each in related if isinstance(each, QosPolicy))
    return next((each for each in policies if each.id == id), None)


def split_rules(rules: Iterable[QosRule]) -> tuple[tuple[QosRule, ...], tuple[QosRule, ...]]:
    """Return the bandwidth limits, and the rules that have no meaning for an address."""
    every = tuple(rules)
    limits = tuple(rule for rule in every if isinstance(rule, BandwidthLimit))
    return limits, tuple(rule for rule in every if rule not in limits)


def gateway_here(value: ExtendedRouter) -> Gateway | None:
    """Return the gateway that this host has of a router."""
    state = value.state
    if state.central is not None:
        return state.central.gateway
    return None if state.full is None else state.full.gateway
