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
