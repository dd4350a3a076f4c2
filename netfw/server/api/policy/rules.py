"""The rules by name: what the declarations say, and what the operator's file says instead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import yaml  # type: ignore[import-untyped]
from oslo_policy.policy import RuleCheck, RuleDefault

from netfw.drivers.api_extension import PolicyRule
from netfw.drivers.query import RequestContext
from netfw.errors import ConfigError, nearest
from netfw.model.device_owner import NETWORK_PREFIX
from netfw.server.api.policy.evaluation import Decisions, Tree, parse, walk
from netfw.server.api.schema.resource_schema import ApiResource, Verb

MOST_REQUESTERS = 4096

STANDARD = (
    PolicyRule(
        name="context_is_admin",
        check="role:admin",
        description="Who is an administrator: sees and owns everything.",
    ),
    PolicyRule(name="admin", check="is_admin:True", description="An administrator."),
    PolicyRule(name="anybody", check="@", description="Whoever is authenticated."),
    PolicyRule(
        name="owner",
        check="project_id:%(project_id)s",
        description="Somebody of the project that owns the target.",
    ),
    PolicyRule(
        name="member",
        check="rule:admin or (role:member and rule:owner)",
        description="Who may write in the project that owns the target.",
    ),
    PolicyRule(
        name="reader",
        check="rule:admin or ((role:reader or role:member) and rule:owner)",
        description="Who may read in the project that owns the target.",
    ),
    PolicyRule(
        name="network_owner",
        check="rule:admin or (role:member and project_id:%(network:project_id)s)",
        description="Who may write in the project that owns the target's network.",
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
    PolicyRule(name="admin_only", check="rule:admin", description="As in older files."),
    PolicyRule(
        name="admin_or_owner", check="rule:admin or rule:owner", description="As in older files."
    ),
)
"""What check strings build upon."""


class Rules:
    """All rules, as they are in force; a new file makes new ones."""

    def __init__(self, trees: Mapping[str, Tree]) -> None:
        self._trees = trees
        self._decisions: dict[object, Decisions] = {}

    def decisions(self, requester: RequestContext) -> Decisions:
        """What they are for *requester*."""
        key = requester.project_id, requester.user, requester.roles, requester.admin
        found = self._decisions.get(key)
        if found is None:
            if len(self._decisions) >= MOST_REQUESTERS:
                self._decisions.clear()
            found = self._decisions[key] = Decisions(self._trees, requester)
        return found


def declared_rules(
    resources: Iterable[ApiResource], more: Iterable[PolicyRule] = ()
) -> dict[str, PolicyRule]:
    """Every rule that there is, by name.

    :raises ConfigError: two declare a rule of one name, otherwise.
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


def compiled(
    declared: Mapping[str, PolicyRule], overrides: Mapping[str, str] | None = None
) -> Rules:
    """The rules in force.

    :raises ConfigError: a rule means nothing, or it leads to none or back to itself.
    """
    texts = {name: rule.check for name, rule in declared.items()} | {**(overrides or {})}
    trees = {}
    for name, text in texts.items():
        try:
            trees[name] = parse(name, text)
        except ValueError as exc:
            raise ConfigError(f"policy rule {name}: {exc}") from exc
    for name in trees:
        _refuse_endless(name, trees, ())
    return Rules(trees)


def read_file(path: str, declared: Mapping[str, PolicyRule], text: str) -> dict[str, str]:
    """The operator's rules: YAML, names with what they mean.

    A name that netfw does not know must be used by another rule of the file.

    :raises ConfigError: it is no such file, or a name is misspelt.
    """
    try:
        found = yaml.safe_load(text) or {}
    except yaml.YAMLError as exc:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(exc).split())}") from exc
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: must be rules, each as 'name: meaning'")
    wrong = [key for key, value in found.items() if not (type(key) is type(value) is str)]
    if wrong:
        raise ConfigError(f"{path}: {wrong[0]}: what it means must be a text in quotes")
    used = " ".join(found.values()).replace("(", " ").replace(")", " ").split()
    for name in found:
        if name not in declared and f"rule:{name}" not in used:
            raise ConfigError(f"{path}: there is no rule {name!r}{nearest(name, declared)}")
    return found


def sample(declared: Mapping[str, PolicyRule]) -> str:
    """A file with every rule as it is, as a remark."""
    blocks = [
        f"# {rule.description}\n#{_quoted(rule.name)}: {_quoted(rule.check)}\n"
        for rule in declared.values()
    ]
    return "\n".join(blocks)


def defaults(declared: Mapping[str, PolicyRule]) -> list[RuleDefault]:
    """The rules as the tools of oslo.policy want them."""
    return [
        RuleDefault(rule.name, rule.check, description=rule.description)
        for rule in declared.values()
    ]


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _of_resource(resource: ApiResource) -> Iterator[PolicyRule]:
    name = resource.name
    for verb in Verb:
        if verb in resource.verbs or verb is Verb.SHOW:
            yield _rule(f"{verb}_{name}", resource.check(verb), f"{_DOING[verb]} a {name}.")
    for attribute in resource.attributes:
        of = f"{attribute.name} of a {name}"
        for verb, check in attribute.checks.items():
            yield _rule(f"{verb}_{name}:{attribute.name}", check, f"{_DOING[verb]} {of}.")
        for inner, checks in attribute.inner.items():
            for verb, check in checks.items():
                rule = f"{verb}_{name}:{attribute.name}:{inner}"
                yield _rule(rule, check, f"{_DOING[verb]} {inner} in {of}.")
    for action in resource.actions:
        yield _rule(action.rule_name, action.check, f"Do {action.name} to a {name}.")


_DOING = {Verb.CREATE: "Make", Verb.SHOW: "See", Verb.UPDATE: "Change", Verb.DELETE: "Delete"}


def _rule(name: str, check: str, description: str) -> PolicyRule:
    return PolicyRule(name=name, check=check, description=description)


def _refuse_endless(name: str, trees: Mapping[str, Tree], above: tuple[str, ...]) -> None:
    if name in above:
        raise ConfigError(f"policy rule {name} leads back to itself")
    for check in walk(trees[name]):
        if isinstance(check, RuleCheck):
            if check.match not in trees:
                hint = nearest(check.match, trees)
                raise ConfigError(f"policy rule {name}: there is no rule {check.match!r}{hint}")
            _refuse_endless(check.match, trees, (*above, name))
