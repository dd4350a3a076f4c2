"""What the firewall in the switch can not take, beyond what no firewall takes.  Pure."""

from __future__ import annotations

from netfw.drivers.firewall import Rules
from netfw.drivers.support import firewall_validation
from netfw.errors import InvalidInput
from netfw.model.protocol import NAMES
from netfw_drivers.ovs.firewall_matches import MATCHED_PORTS


def refusal(key: object, value: object) -> InvalidInput | None:
    """Why *value* can not be had under *key*; ``None``: it can."""
    common = firewall_validation.validation_error(key, value)
    if common is not None or not isinstance(value, Rules):
        return common
    faults = {
        f"rule {rule.id}": f"the switch does not know the ports of "
        f"{NAMES.get(rule.protocol or 0, str(rule.protocol))}: leave them out"
        for rule in value.rules
        if rule.ports is not None and rule.protocol not in MATCHED_PORTS
    }
    return InvalidInput(faults) if faults else None
