"""Predicates on the target of a rule, and ``field:``, the check that oslo.policy does not have."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from oslo_policy.policy import Check, Enforcer

_FIELD = re.compile(r"(?P<resource>[^:=]+):(?P<name>[^=~]+)=(?P<regular>~?)(?P<value>.*)", re.S)


class RuleTarget(Protocol):
    """The target of a rule; raises ``KeyError`` for a missing attribute."""

    def __getitem__(self, name: str, /) -> Any: ...


Predicate = Callable[[RuleTarget], bool]


def is_field_match(text: str) -> bool:
    """Return whether *text* can follow ``field:``."""
    return _FIELD.fullmatch(text) is not None


def attribute_equals(name: str, wanted: str) -> Predicate:
    """Return a predicate: the attribute *name* is *wanted*, as it is or as text."""

    def predicate(target: RuleTarget) -> bool:
        try:
            found = target[name]
            return found == wanted or str(found) == wanted
        except KeyError:
            return False

    return predicate


def field_predicate(match: str) -> Predicate:
    """Evaluate ``field:<resource>:<attribute>=<value>``, or ``=~<regular expression>``."""
    found = _FIELD.fullmatch(match)
    assert found is not None, "the parser of rules refuses others"
    name, value = found["name"], found["value"]
    if not found["regular"]:
        return attribute_equals(name, value)
    pattern = re.compile(value)

    def predicate(target: RuleTarget) -> bool:
        try:
            return pattern.match(str(target[name])) is not None
        except KeyError:
            return False

    return predicate


class FieldCheck(Check):
    """``field:`` for the tools of oslo.policy; the server evaluates its predicate itself."""

    def __call__(
        self,
        target: Mapping[str, Any],
        creds: Mapping[str, Any],
        enforcer: Enforcer,
        current_rule: str | None = None,
    ) -> bool:
        return is_field_match(self.match) and field_predicate(self.match)(target)
