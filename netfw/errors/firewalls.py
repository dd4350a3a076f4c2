"""Refusals about router firewalls; clients know each by the name of its class."""

from __future__ import annotations

from netfw.errors import Conflict, InvalidInput, NotFound


class FirewallGroupNotFound(NotFound):
    """The firewall group does not exist, or the requester may not see it."""

    resource = "firewall_group"


class FirewallPolicyNotFound(NotFound):
    """The firewall policy does not exist, or the requester may not see it."""

    resource = "firewall_policy"


class FirewallRuleNotFound(NotFound):
    """The firewall rule does not exist, or the requester may not see it."""

    resource = "firewall_rule"


class FirewallGroupInUse(Conflict):
    """The firewall group has ports, which must be removed from it first."""


class FirewallGroupPortInvalid(Conflict):
    """The port is no interface of a router."""


class FirewallGroupPortInvalidProject(Conflict):
    """The port is of another project than the firewall group."""


class FirewallGroupPortNotSupported(Conflict):
    """The port is of an instance; security groups filter there."""


class FirewallGroupPortInUse(Conflict):
    """The port is in another firewall group."""


class FirewallPolicyInUse(Conflict):
    """A firewall group uses the policy."""


class FirewallPolicyConflict(NotFound):
    """The policy is of another project, and not shared."""


class FirewallPolicySharingConflict(Conflict):
    """The policy is shared, and one of its rules is not."""


class FirewallRuleInUse(Conflict):
    """A firewall policy uses the rule."""


class FirewallRuleConflict(Conflict):
    """The rule is of another project, and not shared."""


class FirewallRuleAlreadyAssociated(Conflict):
    """The policy has the rule already."""


class FirewallRuleNotAssociatedWithPolicy(InvalidInput):
    """The policy does not have the rule."""


class FirewallRuleInvalidICMPParameter(InvalidInput):
    """ICMP has no ports."""


class FirewallRuleWithPortWithoutProtocolInvalid(InvalidInput):
    """A rule with ports needs a protocol."""


class FirewallIpAddressConflict(InvalidInput):
    """An address is not of the rule's IP version."""
