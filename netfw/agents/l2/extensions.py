"""Calls of L2 extensions for ports."""

from __future__ import annotations

from netfw.agents.common.extension_calls import ExtensionCalls, validate_contribution
from netfw.drivers.l2_extension import ExtendedPort
from netfw.drivers.values.switch_contribution import SwitchContribution
from netfw.flows.flow import Flow
from netfw.model.values.ids import PortId


class PortExtensions(ExtensionCalls[PortId, ExtendedPort, SwitchContribution]):
    """The contributions of each extension to each port."""

    NOUN = "port"

    def validate(self, owner: str, contribution: SwitchContribution) -> None:
        validate_contribution(
            owner, contribution, SwitchContribution, {"flows": Flow, "network_flows": Flow}
        )
