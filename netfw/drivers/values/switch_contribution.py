"""Contributions of agent extensions to switches.

Apart from those to routers: what imports flows takes longer to start.
"""

from __future__ import annotations

from attrs import frozen

from netfw.flows.flow import Flow
from netfw.model.qos import QosRule


@frozen(kw_only=True)
class SwitchContribution:
    """Flows in the tables of the extension's grant, and QoS rules of the port.

    The switch driver translates the QoS rules for its backend.
    """

    owner: str
    flows: tuple[Flow, ...] = ()
    qos: tuple[QosRule, ...] = ()
    """Draft: may change without notice.  No switch driver accepts it yet."""
