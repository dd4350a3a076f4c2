"""QosSupport: the QoS rules that the drivers of a server enforce.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from netfw.drivers.server.mechanism import BindingRequest, MechanismDriver, Refused
from netfw.drivers.values.qos_support import SupportedQosRule
from netfw.model.qos import QosRule, QosRuleType

OF_ROUTERS = (SupportedQosRule(type=QosRuleType.BANDWIDTH_LIMIT),)
"""Rules of floating IPs and of gateways of routers."""


class QosSupport:
    """The rules that each mechanism driver enforces for the ports that it binds."""

    def __init__(self, mechanisms: Sequence[MechanismDriver] = ()) -> None:
        self._mechanisms = {each.describe().name: each for each in mechanisms}
        declared = {each.describe().name: each.supported_qos_rules() for each in mechanisms}
        self.drivers: Mapping[str, tuple[SupportedQosRule, ...]] = {
            name: rules for name, rules in declared.items() if rules is not None
        }
        """The drivers that bind ports, with the rules that each enforces."""

    def missing(self, driver: str, rules: Iterable[QosRule]) -> QosRule | None:
        """Return the first of *rules* that ports bound by *driver* do not enforce."""
        return _missing(self.drivers.get(driver, ()), rules)

    def missing_everywhere(self, rules: Sequence[QosRule]) -> QosRule | None:
        """Return a rule for which no driver enforces all of *rules*, or ``None``."""
        lacking = [self.missing(driver, rules) for driver in self.drivers]
        if None in lacking:
            return None
        return next(iter(lacking), None) or next(iter(rules), None)

    def host_problem(self, driver: str, request: BindingRequest) -> str | None:
        """Return why *driver*, which has bound a port, would not bind it with these rules."""
        if driver not in self._mechanisms:
            return f"driver {driver} is not loaded"
        try:
            answer = self._mechanisms[driver].bind(request)
        except Exception as exc:  # noqa: BLE001 - the contract: an exception is a refusal
            return f"{type(exc).__name__}: {exc}"
        return answer.reason if isinstance(answer, Refused) else None

    def is_uniform(self, rules: Sequence[QosRule]) -> bool:
        """Return whether all drivers enforce *rules*, so that bound ports need no check."""
        return all(self.missing(driver, rules) is None for driver in self.drivers)

    def types(self, *, by_any: bool = False) -> frozenset[QosRuleType]:
        """Return the types of rules that all drivers enforce, or at least one of them."""
        sets = [frozenset(each.type for each in rules) for rules in self.drivers.values()]
        if by_any:
            return frozenset[QosRuleType]().union(*sets)
        return frozenset.intersection(*sets) if sets else frozenset()


def missing_of_routers(rules: Iterable[QosRule]) -> QosRule | None:
    """Return the first of *rules* that routers do not enforce for an address."""
    return _missing(OF_ROUTERS, rules)


def _missing(supported: Sequence[SupportedQosRule], rules: Iterable[QosRule]) -> QosRule | None:
    for rule in rules:
        if not any(each.covers(rule) for each in supported):
            return rule
    return None
