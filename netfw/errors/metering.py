"""Refusals of metering labels and their rules."""

from __future__ import annotations

from netfw.errors import Conflict, NotFound


class MeteringLabelNotFound(NotFound):
    """The metering label does not exist, or the requester may not see it."""

    resource = "metering_label"


class MeteringLabelRuleNotFound(NotFound):
    """The rule does not exist, or the requester may not see it."""

    resource = "metering_label_rule"


class MeteringLabelRuleOverlaps(Conflict):
    """Another rule of the label, for the same direction, has some of the addresses."""
