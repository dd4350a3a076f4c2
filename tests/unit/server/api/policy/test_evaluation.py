"""Rules as one requester meets them, compared with oslo.policy itself."""

from __future__ import annotations

import itertools

import pytest
from oslo_config import cfg
from oslo_policy import policy as oslo

from netfw.drivers.server.query import RequestContext
from netfw.errors import ConfigError
from netfw.server.api.policy.evaluation import Decisions, parse
from netfw.server.api.policy.rules import STANDARD, compile_rules, declared_rules, parse_policy_file
from netfw.server.api.resources import RESOURCES

DECLARED = declared_rules(RESOURCES)
CHECKS = (
    "",
    "@",
    "!",
    "not role:admin",
    "role:%(wanted)s",
    "user_id:%(user_id)s",
    "user_id:alice",
    "tenant_id:%(tenant_id)s",
    "True:%(shared)s",
    "'text':%(name)s",
    "None:%(gateway)s",
    "project_id:%(project_id)s-%(name)s",
    "is_admin:True and not (role:reader or project_id:red)",
    "(role:a or role:b) and (project_id:%(network:project_id)s or True:%(shared)s)",
    "rule:member or not rule:owner",
)
REQUESTERS = [
    RequestContext(project_id=project, user="alice", roles=frozenset(roles), admin="admin" in roles)
    for project, roles in itertools.product(
        ("red", "blue", ""), ((), ("Member",), ("reader",), ("admin",), ("a", "service"))
    )
]
TARGETS = [
    {},
    {"project_id": "red", "tenant_id": "red", "shared": False, "name": "text"},
    {
        "project_id": "blue",
        "tenant_id": "blue",
        "shared": True,
        "gateway": None,
        "user_id": "alice",
    },
    {"project_id": "", "tenant_id": "", "wanted": "member", "network:project_id": "red"},
]


def enforcer(texts):
    conf = cfg.ConfigOpts()
    conf([])
    made = oslo.Enforcer(conf, use_conf=False)
    made.set_rules(oslo.Rules.from_dict(texts))
    return made


def credentials(requester):
    words = {"user_id": requester.user, "is_admin": requester.admin, "roles": [*requester.roles]}
    if requester.project_id:
        words |= {"project_id": requester.project_id, "tenant_id": requester.project_id}
    return words


@pytest.mark.slow
@pytest.mark.spec("API-09")
def test_every_rule_decides_as_in_oslo_policy():
    texts = {name: rule.check for name, rule in DECLARED.items() if "field:" not in rule.check}
    texts |= {f"sample{number}": text for number, text in enumerate(CHECKS)}
    texts |= {"network_device": "!", "restrict_wildcard": "@"}
    reference = enforcer(texts)
    trees = {name: parse(name, text) for name, text in texts.items()}
    namesakes = {text: name for name, text in texts.items()}
    differ = []
    for requester, target in itertools.product(REQUESTERS, TARGETS):
        decisions = Decisions(trees, requester)
        theirs = {  # many rules are alike, and this is slow
            text: bool(reference.enforce(name, target, credentials(requester)))
            for text, name in namesakes.items()
        }
        for name, text in texts.items():
            decision = decisions[name]
            ours = decision if isinstance(decision, bool) else decision(target)
            if theirs[text] is not ours:
                differ.append((name, text, requester, target, ours))
    assert differ == []


def test_context_without_a_project_owns_no_resource_without_one():
    decisions = Decisions(
        {"owner": parse("owner", "project_id:%(project_id)s")}, RequestContext(project_id="")
    )
    assert decisions["owner"] is False


def test_a_field_is_compared_with_a_value_or_a_regular_expression():
    rules = {
        "device": parse("device", "field:port:device_owner=~^network:"),
        "external": parse("external", "field:networks:router:external=True"),
    }
    decisions = Decisions(rules, RequestContext(project_id="red"))
    asked = [
        decisions["device"]({"device_owner": "network:dhcp"}),
        decisions["device"]({"device_owner": "compute:network:"}),
        decisions["device"]({}),
        decisions["external"]({"router:external": True}),
        decisions["external"]({"router:external": False}),
    ]
    assert asked == [True, False, False, True, False]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("role:admin or nonsense", "is not a rule"),
        ("role:admin and", "is not a rule"),
        ("(role:admin", "is not a rule"),
        ("project:%(project_id)s", "requesters have no 'project', did you mean 'project_id'?"),
        ("roles:admin", "did you mean 'role'?"),
        ("field:port", "write such as field:port:device_owner"),
        ("http://example.org/check", "checks that call other services are not supported"),
    ],
)
def test_meaningless_rule_is_a_parse_error(text, words):
    with pytest.raises(ValueError) as refusal:
        parse("create_port", text)
    assert words in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("create_prot: 'role:admin'", "no rule 'create_prot', did you mean 'create_port'?"),
        ("create_port: [[role:admin]]", "create_port: what it means must be a text in quotes"),
        ("create_port: true", "create_port: what it means must be a text in quotes"),
        ("- create_port", "must be rules"),
        ("{", "not YAML"),
        ("create_port: 'rule:onwer'", "no rule 'onwer', did you mean 'owner'?"),
        ("owner: 'rule:member'", "leads back to itself"),
    ],
)
@pytest.mark.spec("API-09")
def test_a_faulty_file_of_rules_is_refused_in_words(text, words):
    with pytest.raises(ConfigError) as refusal:
        compile_rules(DECLARED, parse_policy_file("policy.yaml", DECLARED, text))
    assert words in str(refusal.value)


def test_policy_file_may_define_and_reference_additional_rules():
    text = "ops: 'role:ops'\ncreate_network: '(rule:ops)'\n"
    rules = compile_rules(DECLARED, parse_policy_file("policy.yaml", DECLARED, text))
    ops = RequestContext(project_id="red", roles=frozenset({"ops"}))
    assert rules.decisions(ops)["create_network"] is True


def test_two_declarations_of_one_rule_are_refused():
    twice = [rule for rule in STANDARD if rule.name == "owner"]
    declared_rules((), twice)
    other = type(twice[0])(name="owner", check="@", description="")
    with pytest.raises(ConfigError, match="'owner' is declared as"):
        declared_rules((), [other])
