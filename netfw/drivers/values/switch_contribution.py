"""Contributions of agent extensions to switches.

Apart from those to routers: what imports flows takes longer to start.
"""

from __future__ import annotations

from attrs import frozen

from netfw.flows.flow import Flow


@frozen(kw_only=True)
class SwitchContribution:
    """Flows in the tables of the extension's grant, with their meters; bandwidth of the port."""

    owner: str
    flows: tuple[Flow, ...] = ()
    guaranteed_kbps: int = 0
    """Kilobits a second that frames of the port keep where they leave the host by its physical
    network, however much other ports send; 0: none."""
    network_flows: tuple[Flow, ...] = ()
    """Flows for packets of the port's network only, whichever port has sent them: the switch
    driver adds the match of the network, whose number in the switch an extension does not know.
    Two ports of one network cannot have the same.
    """
