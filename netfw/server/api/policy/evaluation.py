"""Partial evaluation of policy rules: true, false, or a predicate of the target.

The language and its parser are oslo.policy's.  Most rules are decided once the requester is known,
so a list of a thousand rows evaluates them once; of the others usually one comparison remains.
"""

from __future__ import annotations

import ast
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from oslo_policy import _checks
from oslo_policy.policy import AndCheck, Check, NotCheck, OrCheck, RuleCheck, RuleDefault

from netfw.drivers.server.query import RequestContext
from netfw.errors import nearest
from netfw.server.api.policy.predicates import (
    Predicate,
    RuleTarget,
    attribute_equals,
    field_predicate,
    is_field_match,
)

REQUESTER_WORDS = ("project_id", "tenant_id", "user_id", "is_admin")
"""Words left of a colon, besides ``role``, ``rule``, ``field`` and literals."""

_SERVICES = ("http", "https")

_ONE_ATTRIBUTE = re.compile(r"%\((?P<name>[^)]+)\)s")


Decision = bool | Predicate
Tree = Any
"""A check of oslo.policy."""


def parse(name: str, text: str) -> Tree:
    """Parse *text* into a check.

    :raises ValueError: *text* is no rule; oslo.policy itself would parse it as "never".
    """
    tree = _check(name, text)
    refusals = sum(isinstance(each, _NEVER) for each in walk(tree))
    if refusals != text.replace("(", " ").replace(")", " ").split().count("!"):
        raise ValueError(f"{text!r} is not a rule; write such as 'role:admin or rule:owner'")
    for each in walk(tree):
        if isinstance(each, Check):
            _validate_check(each)
    return tree


def _check(name: str, text: str) -> Tree:
    """Parse *text* without the checks of extensions, whose import takes 0.2 s: they use HTTP."""
    parser_log = logging.getLogger("oslo_policy._parser")
    parser_log.disabled = True  # it logs a traceback of what the error of the caller says
    former, _checks.extension_checks = _checks.extension_checks, {}
    try:
        return RuleDefault(name, text).check
    finally:
        _checks.extension_checks = former
        parser_log.disabled = False


_SAMPLE = {text: type(_check("sample", text)) for text in ("@", "!", "role:a", "a:b")}
_ALWAYS, _NEVER, _ROLE, _GENERIC = _SAMPLE.values()


def walk(tree: Tree) -> Iterator[Tree]:
    """Yield the check and all checks within it."""
    yield tree
    for part in getattr(tree, "rules", ()) or filter(None, [getattr(tree, "rule", None)]):
        yield from walk(part)


def _validate_check(check: Check) -> None:
    if isinstance(check, RuleCheck | _ROLE):
        return
    if check.kind == "field":
        if not is_field_match(check.match):
            raise ValueError(f"{check}: write such as field:port:device_owner=~^network:")
    elif check.kind in _SERVICES or not isinstance(check, _GENERIC):
        raise ValueError(f"{check}: checks that call other services are not supported")
    elif check.kind not in REQUESTER_WORDS and _literal(check.kind) is None:
        hint = nearest(check.kind, (*REQUESTER_WORDS, "role", "rule", "field"))
        raise ValueError(f"{check}: requesters have no {check.kind!r}{hint}")


class Decisions:
    """All rules partially evaluated for one requester, each on first use."""

    def __init__(self, rules: Mapping[str, Tree], requester: RequestContext) -> None:
        self._rules = rules
        self.requester = requester
        self._roles = frozenset(role.lower() for role in requester.roles)
        self._words = {
            "project_id": requester.project_id,
            "tenant_id": requester.project_id,
            "user_id": requester.user,
            "is_admin": str(requester.admin),
        }
        self._cache: dict[str, Decision] = {}
        self.views: dict[str, Any] = {}
        """A cache of values derived from the decisions."""

    def __getitem__(self, name: str) -> Decision:
        decision = self._cache.get(name)
        if decision is None:
            decision = self._cache[name] = self._decide(self._rules[name])
        return decision

    def _decide(self, check: Tree) -> Decision:
        if isinstance(check, AndCheck):
            return _all([self._decide(part) for part in check.rules])
        if isinstance(check, OrCheck):
            return _any([self._decide(part) for part in check.rules])
        if isinstance(check, NotCheck):
            return _not(self._decide(check.rule))
        if isinstance(check, Check):
            return self._single(check)
        return isinstance(check, _ALWAYS)

    def _single(self, check: Check) -> Decision:
        if isinstance(check, RuleCheck):
            return self[check.match]
        if check.kind == "role":
            return self._role(check.match)
        return self._compare(check.kind, check.match)

    def _role(self, match: str) -> Decision:
        if "%" not in match:
            return match.lower() in self._roles
        return lambda target: (
            (text := _fill(match, target)) is not None and (text.lower() in self._roles)
        )

    def _compare(self, kind: str, match: str) -> Decision:
        if kind == "field":
            return field_predicate(match)
        wanted = self._words.get(kind)
        if wanted is None:
            wanted = _literal(kind)
        if not wanted:  # empty: equal to nothing, not even to the empty owner of a resource
            return False
        if "%" not in match:
            return match == wanted
        if one := _ONE_ATTRIBUTE.fullmatch(match):
            return attribute_equals(one["name"], wanted)
        return lambda target: _fill(match, target) == wanted


def _literal(kind: str) -> str | None:
    try:
        return str(ast.literal_eval(kind))
    except (ValueError, SyntaxError):
        return None


def _fill(match: str, target: RuleTarget) -> str | None:
    try:
        return match % target
    except KeyError:
        return None


def _undecided(parts: Sequence[Decision]) -> list[Predicate]:
    """Return the parts that depend on the target."""
    return [part for part in parts if not isinstance(part, bool)]


def _all(parts: Sequence[Decision]) -> Decision:
    if False in parts:
        return False
    predicates = _undecided(parts)
    if len(predicates) < 2:
        return predicates[0] if predicates else True

    def every(target: RuleTarget) -> bool:
        for predicate in predicates:  # noqa: SIM110  a generator would be slower
            if not predicate(target):
                return False
        return True

    return every


def _any(parts: Sequence[Decision]) -> Decision:
    if True in parts:
        return True
    predicates = _undecided(parts)
    if len(predicates) < 2:
        return predicates[0] if predicates else False

    def either(target: RuleTarget) -> bool:
        for predicate in predicates:  # noqa: SIM110  a generator would be slower
            if predicate(target):
                return True
        return False

    return either


def _not(part: Decision) -> Decision:
    if isinstance(part, bool):
        return not part
    return lambda target: not part(target)
