"""Contributions of agent extensions to switches.

Apart from those to routers: what imports flows takes longer to start.
"""

from __future__ import annotations

from attrs import frozen

from netfw.flows.flow import Flow


@frozen(kw_only=True)
class SwitchContribution:
    """Flows in the tables of the extension's grant; their meters are written with them."""

    owner: str
    flows: tuple[Flow, ...] = ()
