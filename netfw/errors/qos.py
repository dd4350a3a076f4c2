"""Refusals about QoS policies, by the names that clients know."""

from __future__ import annotations

from typing import ClassVar

from netfw.errors import Conflict, Forbidden, InUse, NotFound


class QosPolicyNotFound(NotFound):
    """There is no such QoS policy that the requester may use."""

    resource: ClassVar[str] = "policy"


class QosRuleNotFound(NotFound):
    """The QoS policy has no such rule."""


class QosPolicyInUse(InUse):
    """Networks, ports, floating IPs or gateways use the QoS policy."""

    resource: ClassVar[str] = "policy"


class QoSPolicyDefaultAlreadyExists(Conflict):
    """The project has a default QoS policy."""


class QoSRulesConflict(Conflict):
    """The QoS policy has a rule for the same thing."""


class QoSRuleParameterConflict(Conflict):
    """The value of a QoS rule contradicts another rule of the policy."""


class QosRuleNotSupported(Conflict):
    """What a QoS policy is for cannot enforce one of its rules."""


class QosRuleNotSupportedByNetwork(Conflict):
    """No driver of the server enforces a rule of the network's QoS policy."""


class PolicyRemoveAuthorizationError(Forbidden):
    """The requester may not take away a QoS policy that it may not use."""
