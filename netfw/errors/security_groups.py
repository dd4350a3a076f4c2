"""Refusals of security groups and their rules."""

from __future__ import annotations

from netfw.errors import Conflict, InUse, InvalidInput, NotFound


class SecurityGroupNotFound(NotFound):
    """The security group does not exist, or the requester may not see it."""

    resource = "security_group"


class SecurityGroupInUse(InUse):
    """Ports use the security group, or rules of other groups refer to it."""

    resource = "security_group"


class SecurityGroupRuleNotFound(NotFound):
    """The rule does not exist, or the requester may not see it."""

    resource = "security_group_rule"


class SecurityGroupCannotRemoveDefault(InUse):
    """The default security group stays as long as its project."""


class SecurityGroupCannotUpdateDefault(InUse):
    """The default security group keeps its name."""


class SecurityGroupDefaultAlreadyExists(InUse):
    """Only the default security group has that name."""


class SecurityGroupConflict(Conflict):
    """The port cannot be in stateful and in stateless security groups."""


class SecurityGroupRuleExists(InUse):
    """The security group has the rule."""


class DuplicateSecurityGroupRuleInPost(InUse):
    """Two rules of the request are the same."""


class SecurityGroupMultipleRemoteEntites(InvalidInput):
    """The rule has more than one remote: a prefix, a group or an address group."""


class SecurityGroupProtocolRequiredWithPorts(InvalidInput):
    """The rule has ports and no protocol."""


class SecurityGroupInvalidProtocolForPort(InvalidInput):
    """The protocol of the rule has no ports."""


class SecurityGroupInvalidPortRange(InvalidInput):
    """The first port of the range is above the last."""


class SecurityGroupInvalidPortValue(InvalidInput):
    """The number is no port."""


class SecurityGroupInvalidIcmpValue(InvalidInput):
    """The number is no ICMP type or code."""


class SecurityGroupMissingIcmpType(InvalidInput):
    """The rule has an ICMP code and no type."""


class SecurityGroupEthertypeConflictWithProtocol(InvalidInput):
    """The protocol does not exist in the IP version of the rule."""


class SecurityGroupRuleInvalidProtocol(InvalidInput):
    """The text or number is no IP protocol."""


class SecurityGroupRuleInvalidEtherType(InvalidInput):
    """The IP version of the rule is neither IPv4 nor IPv6."""


class SecurityGroupRuleParameterConflict(InvalidInput):
    """The remote prefix is not of the IP version of the rule."""
