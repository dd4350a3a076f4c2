"""Policy enforcement: evaluate the rules, and raise ``Forbidden`` or ``NotFound``.

A resource that the requester may not see is not found; a forbidden action on a visible one is
forbidden.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from attrs import frozen
from oslo_config.cfg import ConfigOpts

from netfw.conf.identity import POLICY
from netfw.drivers.server.api_extension import PolicyRule
from netfw.drivers.server.query import Body, RequestContext
from netfw.errors import ConfigError, Forbidden, NotFound
from netfw.errors.registry import not_found
from netfw.model.wire import Json
from netfw.server.api.auth_interfaces import PolicyOperation
from netfw.server.api.policy.evaluation import Decision, Decisions
from netfw.server.api.policy.predicates import Predicate
from netfw.server.api.policy.rules import (
    PolicyRules,
    compile_rules,
    declared_rules,
    parse_policy_file,
)
from netfw.server.api.policy.target import Lookup, TargetRow, TargetRows
from netfw.server.api.reloading_file import ReloadingFile
from netfw.server.api.schema.resource_schema import ApiAction, ApiAttribute, ApiResource, Verb

_OWNERSHIP = frozenset({"id", "project_id", "tenant_id"})


@frozen(kw_only=True)
class _View:
    """The visible part of a resource for one requester."""

    row: Decision
    hidden: frozenset[str]
    conditional: tuple[tuple[str, Predicate], ...]
    """Attributes that are visible in some rows."""
    inner: tuple[tuple[str, str, Decision], ...]

    @property
    def everything(self) -> bool:
        return self.row is True and not (self.hidden or self.conditional or self.inner)


class RulesPolicy:
    """The :class:`~netfw.server.api.auth_interfaces.Authorizer` of oslo.policy rules."""

    def __init__(
        self,
        resources: Iterable[ApiResource],
        lookup: Lookup,
        *,
        path: str | None = None,
        optional: bool = False,
        more: Iterable[PolicyRule] = (),
    ) -> None:
        """*path*: the policy file; *optional*: it need not exist.

        :raises ConfigError: the rules or the file are not usable.
        """
        self._resources = {each.name: each for each in resources}
        self._lookup = lookup
        self.declared: Mapping[str, PolicyRule] = declared_rules(self._resources.values(), more)
        declared = compile_rules(self.declared)
        self._file: ReloadingFile[PolicyRules] | None = None
        self._rules = declared
        if path is not None:
            missing = declared if optional else None
            read = partial(_read, path, self.declared)
            try:
                self._file = ReloadingFile(path, read, private=False, missing=missing)
            except ConfigError as exc:
                raise ConfigError(f"[policy] file: {exc}") from exc

    def is_admin(self, requester: RequestContext) -> bool:
        """Return whether the roles of *requester* make it an administrator."""
        decision = self._of(requester)["context_is_admin"]
        return decision is True

    def reload_if_changed(self) -> None:
        """Reload the policy file if it changed; a problem with it is logged."""
        if self._file is not None:
            self._file.reload_if_changed()

    def reload(self) -> None:
        """Reload the policy file.

        :raises ConfigError: the file is not usable; the former rules stay in force.
        """
        if self._file is not None:
            self._file.reload()

    def needs_target(
        self,
        requester: RequestContext,
        resource: ApiResource,
        operation: PolicyOperation,
        requested: Body,
    ) -> bool:
        decisions = self._of(requester)
        if operation is Verb.SHOW:
            return decisions[f"get_{resource.policy_name}"] is not True
        needed = {decisions[rule] for rule in _rules(resource, operation, requested)}
        if needed == {True}:
            return False
        return not needed <= {True, False} or not isinstance(
            decisions[f"get_{resource.policy_name}"], bool
        )

    def is_possible(
        self, requester: RequestContext, resource: ApiResource, operation: PolicyOperation
    ) -> bool:
        decisions = self._of(requester)
        return all(decisions[rule] is not False for rule in _rules(resource, operation, {}))

    def authorize(
        self,
        requester: RequestContext,
        resource: ApiResource,
        operation: PolicyOperation,
        target: Body | None,
        requested: Body,
    ) -> None:
        if operation is Verb.SHOW and target is None:
            return  # a list: visible() filters its rows
        decisions = self._of(requester)
        row = None if target is None else self._row(decisions, resource, target)
        self._authorize(decisions, resource, operation, row, requested)

    def authorize_creation(
        self,
        requester: RequestContext,
        resource: ApiResource,
        targets: Sequence[Body],
        requested: Sequence[Body],
    ) -> None:
        decisions = self._of(requester)
        rows = TargetRows(targets, resource, self._lookup, decisions.requester)
        for target, named in zip(targets, requested, strict=True):
            self._authorize(decisions, resource, Verb.CREATE, rows.target(target), named)

    def _authorize(
        self,
        decisions: Decisions,
        resource: ApiResource,
        operation: PolicyOperation,
        row: TargetRow | None,
        requested: Body,
    ) -> None:
        target = None if row is None else row.body
        first, *others = _rules(resource, operation, requested)
        if not _holds(decisions[first], row):
            raise self._refusal(decisions, resource, operation, target, first)
        if others and target is not None and operation is Verb.UPDATE:
            row = self._row(decisions, resource, _updated(resource, target, requested))
        for rule in others:
            if not _holds(decisions[rule], row):
                raise self._refusal(decisions, resource, operation, target, rule)

    def hidden(self, requester: RequestContext, resource: ApiResource) -> frozenset[str]:
        return self._view_of(requester, resource).hidden

    def conditional(self, requester: RequestContext, resource: ApiResource) -> frozenset[str]:
        return frozenset(name for name, _ in self._view_of(requester, resource).conditional)

    def showing(
        self,
        requester: RequestContext,
        resource: ApiResource,
        bodies: Sequence[Body],
        names: Collection[str],
    ) -> Sequence[Body]:
        conditional = self._view_of(requester, resource).conditional
        predicates = [predicate for name, predicate in conditional if name in names]
        rows = TargetRows(bodies, resource, self._lookup, requester)
        return [body for body in bodies if all(each(TargetRow(body, rows)) for each in predicates)]

    def visible(
        self, requester: RequestContext, resource: ApiResource, bodies: Sequence[Body]
    ) -> Sequence[Body]:
        view = self._view_of(requester, resource)
        if view.everything:
            return bodies
        if view.row is False:
            return []
        rows = TargetRows(bodies, resource, self._lookup, requester)
        if view.row is not True:
            bodies = [body for body in bodies if view.row(TargetRow(body, rows))]
        if not (view.hidden or view.conditional or view.inner):
            return bodies
        return [_visible_part(body, view, rows) for body in bodies]

    def _of(self, requester: RequestContext) -> Decisions:
        rules = self._rules if self._file is None else self._file.value
        return rules.decisions(requester)

    def _view_of(self, requester: RequestContext, resource: ApiResource) -> _View:
        decisions = self._of(requester)
        view: _View | None = decisions.views.get(resource.name)
        if view is None:
            view = decisions.views[resource.name] = _view(decisions, resource)
        return view

    def _row(self, decisions: Decisions, resource: ApiResource, body: Body) -> TargetRow:
        return TargetRows((body,), resource, self._lookup, decisions.requester).target(body)

    def _sees(self, decisions: Decisions, resource: ApiResource, body: Body | None) -> bool:
        row = None if body is None else self._row(decisions, resource, body)
        return _holds(decisions[f"get_{resource.policy_name}"], row)

    def _refusal(
        self,
        decisions: Decisions,
        resource: ApiResource,
        operation: PolicyOperation,
        target: Body | None,
        rule: str,
    ) -> Forbidden | NotFound:
        if operation is Verb.CREATE:
            hidden = self._hidden_parent(decisions, resource, target or {})
            return hidden or Forbidden(_refusal_message(resource, operation, rule))
        if operation is not Verb.SHOW and self._sees(decisions, resource, target):
            return Forbidden(_refusal_message(resource, operation, rule))
        id = (target or {}).get(resource.identity, "")
        return not_found(resource.name)(f"there is no {resource.name} {id}".rstrip())

    def _hidden_parent(
        self, decisions: Decisions, resource: ApiResource, body: Body
    ) -> NotFound | None:
        """Return the error for the first parent of a new resource that the requester cannot see."""
        rows = TargetRows((body,), resource, self._lookup, decisions.requester)
        for name, attribute in resource.parents.items():
            if body.get(attribute) is None or name not in self._resources:
                continue
            parent, ids = rows.parent(body, name), frozenset({str(body[attribute])})
            if (
                parent is None
                or not self._sees(decisions, self._resources[name], parent)
                or not self._lookup(decisions.requester, name, ids)
            ):
                return not_found(name)(f"there is no {name} {body[attribute]}")
        return None


def make_policy(
    conf: ConfigOpts,
    resources: Iterable[ApiResource],
    lookup: Lookup,
    more: Iterable[PolicyRule] = (),
) -> RulesPolicy:
    """Build the policy with ``[policy] file``; the default file need not exist.

    :raises ConfigError: the rules or the file are not usable.
    """
    path = conf.policy.file
    optional = path == next(each for each in POLICY if each.dest == "file").default
    return RulesPolicy(resources, lookup, path=path, optional=optional, more=more)


def _read(path: str, declared: Mapping[str, PolicyRule], text: str) -> PolicyRules:
    overrides = parse_policy_file(path, declared, text)
    try:
        return compile_rules(declared, overrides)
    except ConfigError as exc:
        raise ConfigError(f"{path}: {exc}") from exc


def _holds(decision: Decision, row: TargetRow | None) -> bool:
    if isinstance(decision, bool):
        return decision
    return row is not None and decision(row)


def _rules(resource: ApiResource, operation: PolicyOperation, requested: Body) -> Iterator[str]:
    """Yield the rule of the deed, then the rules of the attributes in the request."""
    if isinstance(operation, ApiAction):
        yield operation.rule_name
        return
    yield f"{operation}_{resource.policy_name}"
    if operation not in (Verb.CREATE, Verb.UPDATE):
        return
    for attribute in resource.attributes:
        if attribute.name in requested and (attribute.checks or attribute.inner):
            yield from _attribute_rules(resource, attribute, operation, requested)


def _attribute_rules(
    resource: ApiResource, attribute: ApiAttribute, verb: Verb, requested: Body
) -> Iterator[str]:
    value = requested[attribute.name]
    if verb is Verb.CREATE and value == attribute.default:
        return
    name = f"{verb}_{resource.policy_name}:{attribute.name}"
    if verb in attribute.checks:
        yield name
    objects = value if isinstance(value, list) else [value]
    given = {inner for each in objects if isinstance(each, Mapping) for inner in each}
    for inner, checks in attribute.inner.items():
        if verb in checks and inner in given:
            yield f"{name}:{inner}"


def _updated(resource: ApiResource, target: Body, requested: Body) -> Body:
    """Return *target* after the update; owner and parents stay as they are."""
    kept = _OWNERSHIP.union(resource.parents.values())
    return {**target, **{name: requested[name] for name in requested if name not in kept}}


def _view(decisions: Decisions, resource: ApiResource) -> _View:
    hidden: set[str] = set()
    conditional: list[tuple[str, Predicate]] = []
    inner: list[tuple[str, str, Decision]] = []
    for attribute in resource.attributes:
        name = f"{Verb.SHOW}_{resource.policy_name}:{attribute.name}"
        if Verb.SHOW in attribute.checks:
            decision = decisions[name]
            if decision is False:
                hidden.add(attribute.name)
            elif decision is not True:
                conditional.append((attribute.name, decision))
        for part, checks in attribute.inner.items():
            if Verb.SHOW in checks and (decision := decisions[f"{name}:{part}"]) is not True:
                inner.append((attribute.name, part, decision))
    return _View(
        row=decisions[f"{Verb.SHOW}_{resource.policy_name}"],
        hidden=frozenset(hidden),
        conditional=tuple(conditional),
        inner=tuple(inner),
    )


def _visible_part(body: Body, view: _View, rows: TargetRows) -> Body:
    row = TargetRow(body, rows)
    hidden = view.hidden
    if view.conditional:
        hidden = hidden.union(name for name, predicate in view.conditional if not predicate(row))
    visible = dict(body)  # copying and deleting is several times faster than selecting
    for name in hidden:
        visible.pop(name, None)
    for attribute, part, decision in view.inner:
        if attribute in visible and not _holds(decision, row):
            visible[attribute] = _without(visible[attribute], part)
    return visible


def _without(value: Json, part: str) -> Json:
    if isinstance(value, list):
        return [_without(each, part) for each in value]
    if not isinstance(value, Mapping):
        return value
    return {name: each for name, each in value.items() if name != part}


def _refusal_message(resource: ApiResource, operation: PolicyOperation, rule: str) -> str:
    """Return the message of a refusal, with the rule that an operator would have to change."""
    doing = f"do {operation.name} to" if isinstance(operation, ApiAction) else str(operation)
    attribute = "" if isinstance(operation, ApiAction) else rule.partition(":")[2]
    what = f"{attribute} of a {resource.name}" if attribute else f"this {resource.name}"
    return f"you may not {doing} {what} (policy rule {rule})"
