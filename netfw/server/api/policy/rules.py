"""Policy rules by name: those of the declarations, and the overrides of the policy file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import yaml  # type: ignore[import-untyped]
from oslo_policy.policy import RuleCheck, RuleDefault

from netfw.drivers.server.api_extension import PolicyRule
from netfw.drivers.server.query import RequestContext
from netfw.errors import ConfigError, nearest
from netfw.model.values.device_owner import NETWORK_PREFIX
from netfw.server.api.policy.evaluation import Decisions, Tree, parse, walk
from netfw.server.api.schema.resource_schema import ApiResource, Verb

MAX_REQUESTERS = 4096

STANDARD = (
    PolicyRule(
        name="context_is_admin",
        check="role:admin",
        description="An administrator, who sees and owns everything.",
    ),
    PolicyRule(name="admin", check="is_admin:True", description="An administrator."),
    PolicyRule(name="regular_user", check="@", description="Every authenticated requester."),
    PolicyRule(
        name="owner",
        check="project_id:%(project_id)s",
        description="A member of the project that owns the target.",
    ),
    PolicyRule(
        name="member",
        check="rule:admin or (role:member and rule:owner)",
        description="May write in the project that owns the target.",
    ),
    PolicyRule(
        name="reader",
        check="rule:admin or ((role:reader or role:member) and rule:owner)",
        description="May read in the project that owns the target.",
    ),
    PolicyRule(
        name="network_owner",
        check="rule:admin or (role:member and project_id:%(network:project_id)s)",
        description="May write in the project that owns the target's network.",
    ),
    PolicyRule(
        name="ext_parent_owner",
        check="project_id:%(ext_parent:project_id)s",
        description="A member of the project that owns the resource before the target in the URL.",
    ),
    PolicyRule(
        name="service",
        check="rule:admin or role:service",
        description="Another service of the cloud.",
    ),
    PolicyRule(
        name="network_device",
        check=f"field:port:device_owner=~^{NETWORK_PREFIX}",
        description="The target is a port of the network's own: of a router, of DHCP.",
    ),
    PolicyRule(
        name="restrict_wildcard",
        check="rule:admin or not field:rbac_policy:target_tenant=*",
        description="May share a resource with all projects, or shares it with one.",
    ),
    PolicyRule(name="admin_only", check="rule:admin", description="As in older files."),
    PolicyRule(
        name="admin_or_owner", check="rule:admin or rule:owner", description="As in older files."
    ),
)
"""Rules that check strings refer to."""


class PolicyRules:
    """All rules in force; a new policy file makes new ones."""

    def __init__(self, trees: Mapping[str, Tree]) -> None:
        self._trees = trees
        self._decisions: dict[object, Decisions] = {}

    def decisions(self, requester: RequestContext) -> Decisions:
        """Return the rules evaluated for *requester*."""
        key = requester.project_id, requester.user, requester.roles, requester.admin
        found = self._decisions.get(key)
        if found is None:
            if len(self._decisions) >= MAX_REQUESTERS:
                self._decisions.clear()
            found = self._decisions[key] = Decisions(self._trees, requester)
        return found


def declared_rules(
    resources: Iterable[ApiResource], more: Iterable[PolicyRule] = ()
) -> dict[str, PolicyRule]:
    """Return all declared rules by name.

    :raises ConfigError: two declarations of a rule differ.
    """
    found: dict[str, PolicyRule] = {}
    for rule in (*STANDARD, *(each for one in resources for each in _of_resource(one)), *more):
        other = found.setdefault(rule.name, rule)
        if other.check != rule.check:
            raise ConfigError(
                f"the policy rule {rule.name!r} is declared as {other.check!r} and as "
                f"{rule.check!r}"
            )
    return found


def compile_rules(
    declared: Mapping[str, PolicyRule], overrides: Mapping[str, str] | None = None
) -> PolicyRules:
    """Compile the declared rules with their overrides.

    :raises ConfigError: a rule cannot be parsed, names an unknown rule, or refers to itself.
    """
    texts = {name: rule.check for name, rule in declared.items()} | {**(overrides or {})}
    trees = {}
    for name, text in texts.items():
        try:
            trees[name] = parse(name, text)
        except ValueError as exc:
            raise ConfigError(f"policy rule {name}: {exc}") from exc
    for name in trees:
        _check_references(name, trees, ())
    return PolicyRules(trees)


def parse_policy_file(path: str, declared: Mapping[str, PolicyRule], text: str) -> dict[str, str]:
    """Parse a policy file: YAML with check strings by rule name.

    A name that is not declared must be used by another rule of the file.

    :raises ConfigError: the file has another form, or a name is misspelt.
    """
    try:
        overrides = yaml.safe_load(text) or {}
    except yaml.YAMLError as exc:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(exc).split())}") from exc
    if not isinstance(overrides, dict):
        raise ConfigError(f"{path}: must be rules, each as 'name: meaning'")
    wrong = [key for key, value in overrides.items() if not (type(key) is type(value) is str)]
    if wrong:
        raise ConfigError(f"{path}: {wrong[0]}: what it means must be a text in quotes")
    used = " ".join(overrides.values()).replace("(", " ").replace(")", " ").split()
    for name in overrides:
        if name not in declared and f"rule:{name}" not in used:
            raise ConfigError(f"{path}: there is no rule {name!r}{nearest(name, declared)}")
    return overrides


def render_sample(declared: Mapping[str, PolicyRule]) -> str:
    """Render a policy file with every rule in a comment."""
    blocks = [
        f"# {rule.description}\n#{_quoted(rule.name)}: {_quoted(rule.check)}\n"
        for rule in declared.values()
    ]
    return "\n".join(blocks)


def defaults(declared: Mapping[str, PolicyRule]) -> list[RuleDefault]:
    """Return the rules for the tools of oslo.policy."""
    return [
        RuleDefault(rule.name, rule.check, description=rule.description)
        for rule in declared.values()
    ]


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _of_resource(resource: ApiResource) -> Iterator[PolicyRule]:
    name, rules = resource.name, resource.policy_name
    for verb in Verb:
        if verb in resource.verbs or verb is Verb.SHOW:
            yield _rule(f"{verb}_{rules}", resource.check(verb), f"{_VERBS[verb]} a {name}.")
    for attribute in resource.attributes:
        of = f"{attribute.name} of a {name}"
        for verb, check in attribute.checks.items():
            yield _rule(f"{verb}_{rules}:{attribute.name}", check, f"{_VERBS[verb]} {of}.")
        for inner, checks in attribute.inner.items():
            for verb, check in checks.items():
                rule = f"{verb}_{rules}:{attribute.name}:{inner}"
                yield _rule(rule, check, f"{_VERBS[verb]} {inner} in {of}.")
    for action in resource.actions:
        yield _rule(action.rule_name, action.check, f"Do {action.name} to a {name}.")


_VERBS = {Verb.CREATE: "Create", Verb.SHOW: "See", Verb.UPDATE: "Change", Verb.DELETE: "Delete"}


def _rule(name: str, check: str, description: str) -> PolicyRule:
    return PolicyRule(name=name, check=check, description=description)


def _check_references(name: str, trees: Mapping[str, Tree], above: tuple[str, ...]) -> None:
    if name in above:
        raise ConfigError(f"policy rule {name} leads back to itself")
    for check in walk(trees[name]):
        if isinstance(check, RuleCheck):
            if check.match not in trees:
                hint = nearest(check.match, trees)
                raise ConfigError(f"policy rule {name}: there is no rule {check.match!r}{hint}")
            _check_references(check.match, trees, (*above, name))
