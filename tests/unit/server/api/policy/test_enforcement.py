"""What the API asks of policy, with the declarations of the API."""

from __future__ import annotations

import time

import pytest
from attrs import evolve

from netfw.conf.identity import POLICY, POLICY_GROUP
from netfw.conf.loader import load_config
from netfw.drivers.server.query import RequestContext
from netfw.errors import ConfigError, Forbidden, NotFound
from netfw.server.api.policy.enforcement import RulesPolicy, make_policy
from netfw.server.api.policy.rules import render_sample
from netfw.server.api.resources import RESOURCES
from netfw.server.api.schema.resource_schema import ApiResource, Verb

NAMED = {each.name: each for each in RESOURCES}
NETWORK, PORT, ROUTER, AGENT = (NAMED[name] for name in ("network", "port", "router", "agent"))
ADMIN = RequestContext(project_id="cloud", roles=frozenset({"admin"}), admin=True)
RED = RequestContext(project_id="red", roles=frozenset({"member"}))
RED_READER = RequestContext(project_id="red", roles=frozenset({"reader"}))
BLUE = RequestContext(project_id="blue", roles=frozenset({"member", "reader"}))
SERVICE = RequestContext(project_id="nova", roles=frozenset({"service", "member"}))

NETWORKS = {
    "n-red": {"id": "n-red", "project_id": "red", "shared": False, "router:external": False},
    "n-blue": {"id": "n-blue", "project_id": "blue", "shared": False, "router:external": False},
    "n-all": {"id": "n-all", "project_id": "cloud", "shared": True, "router:external": False},
    "n-out": {"id": "n-out", "project_id": "cloud", "shared": False, "router:external": True},
}


class Looked:
    """The parents that there are, and how often somebody asked for them."""

    def __init__(self):
        self.requested = []

    def __call__(self, requester, name, ids):
        self.requested.append((name, ids))
        return {id: NETWORKS[id] for id in ids if name == "network" and id in NETWORKS}


@pytest.fixture
def looked():
    return Looked()


@pytest.fixture
def policy(looked):
    return RulesPolicy(RESOURCES, looked)


def port(project, network, **more):
    return {"id": "p", "project_id": project, "network_id": network, "device_owner": "", **more}


def may(policy, requester, resource, operation, target, *, requested=None):
    try:
        policy.authorize(requester, resource, operation, target, requested or {})
    except Forbidden as exc:
        return f"403 {exc}"
    except NotFound as exc:
        return f"404 {exc}"
    return "yes"


@pytest.mark.spec("API-09", "API-04")
@pytest.mark.parametrize(
    "case",
    [
        (RED, Verb.CREATE, port("red", "n-red"), {}, "yes"),
        (RED_READER, Verb.CREATE, port("red", "n-red"), {}, "403"),
        (RED, Verb.CREATE, port("blue", "n-red"), {}, "403"),
        (RED, Verb.CREATE, port("red", "n-red"), {"mac_address": "fa:16:3e:00:00:01"}, "yes"),
        (RED, Verb.CREATE, port("red", "n-all"), {"mac_address": "fa:16:3e:00:00:01"}, "403"),
        (RED, Verb.CREATE, port("red", "n-blue"), {"mac_address": "fa:16:3e:00:00:01"}, "404"),
        (RED, Verb.CREATE, port("red", "none"), {"mac_address": "fa:16:3e:00:00:01"}, "404"),
        (RED, Verb.CREATE, port("red", "n-red"), {"binding:host_id": "h1"}, "403"),
        (RED, Verb.CREATE, port("red", "n-red"), {"binding:host_id": ""}, "yes"),
        (SERVICE, Verb.CREATE, port("nova", "n-red"), {"binding:host_id": "h1"}, "yes"),
        (ADMIN, Verb.CREATE, port("blue", "n-red"), {"binding:host_id": "h1"}, "yes"),
        (RED, Verb.CREATE, port("red", "n-all"), {"fixed_ips": [{"subnet_id": "s"}]}, "yes"),
        (
            RED,
            Verb.CREATE,
            port("red", "n-all"),
            {"fixed_ips": [{"ip_address": "10.0.0.9"}]},
            "403",
        ),
        (RED, Verb.SHOW, port("red", "n-all"), {}, "yes"),
        (RED, Verb.SHOW, port("blue", "n-red"), {}, "yes"),
        (RED, Verb.SHOW, port("blue", "n-all"), {}, "404"),
        (RED, Verb.UPDATE, port("red", "n-all"), {"name": "x"}, "yes"),
        (RED_READER, Verb.UPDATE, port("red", "n-all"), {"name": "x"}, "403"),
        (RED, Verb.UPDATE, port("blue", "n-red"), {"name": "x"}, "403"),
        (RED, Verb.UPDATE, port("blue", "n-all"), {"name": "x"}, "404"),
        (RED, Verb.UPDATE, port("red", "n-all"), {"mac_address": "fa:16:3e:00:00:01"}, "403"),
        (RED, Verb.UPDATE, port("red", "n-all"), {"device_owner": "network:dhcp"}, "403"),
        (RED, Verb.UPDATE, port("red", "n-all"), {"device_owner": "compute:a"}, "yes"),
        (RED, Verb.UPDATE, port("red", "n-red"), {"device_owner": "network:dhcp"}, "yes"),
        (RED, Verb.UPDATE, port("blue", "n-all"), {"project_id": "red"}, "404"),
        (
            RED,
            Verb.UPDATE,
            port("red", "n-all"),
            {"network_id": "n-red", "mac_address": "m"},
            "403",
        ),
        (RED, Verb.DELETE, port("blue", "n-red"), {}, "yes"),
        (RED_READER, Verb.DELETE, port("red", "n-red"), {}, "403"),
        (BLUE, Verb.DELETE, port("red", "n-red"), {}, "404"),
    ],
)
def test_ports_are_for_their_owners_and_those_of_the_network(policy, case):
    requester, operation, target, requested, answer = case
    assert may(policy, requester, PORT, operation, target, requested=requested)[:3] == answer[:3]


def test_a_refusal_names_the_attribute_and_the_rule(policy):
    words = may(policy, RED, NETWORK, Verb.CREATE, NETWORKS["n-red"], requested={"shared": True})
    rule = "policy rule create_network:shared"
    assert words == f"403 you may not create shared of a network ({rule})"


GATEWAY = "external_gateway_info"


@pytest.mark.spec("API-09")
@pytest.mark.parametrize("operation", [Verb.CREATE, Verb.UPDATE])
def test_names_within_an_object_have_rules_of_their_own(policy, operation):
    router = {"id": "r", "project_id": "red"}
    answers = {
        name: may(
            policy,
            RED,
            ROUTER,
            operation,
            router,
            requested={GATEWAY: {"network_id": "n", **given}},
        )
        for name, given in (
            ("", {}),
            ("enable_snat", {"enable_snat": False}),
            ("external_fixed_ips", {"external_fixed_ips": [{"ip_address": "203.0.113.77"}]}),
        )
    }
    assert answers.pop("") == "yes"
    for name, answer in answers.items():
        assert answer.endswith(f"(policy rule {operation}_router:{GATEWAY}:{name})")
    requested = {GATEWAY: {"network_id": "n", "enable_snat": False}}
    assert may(policy, ADMIN, ROUTER, operation, router, requested=requested) == "yes"
    assert may(policy, RED, ROUTER, operation, router, requested={GATEWAY: None}) == "yes"


def test_hidden_keys_within_an_object_are_removed():
    seen = {Verb.SHOW: "rule:admin"}
    shape = ROUTER.attribute(GATEWAY)
    parts = tuple(
        evolve(shape, name=name, inner={"enable_snat": seen}) for name in ("one", "several")
    )
    thing = ApiResource(
        name="thing", collection="things", attributes=parts, checks={Verb.SHOW: "@"}
    )
    body = {"one": {"a": 1, "enable_snat": True}, "several": [{"b": 2, "enable_snat": True}]}
    policy = RulesPolicy((thing,), lambda requester, name, ids: {})
    assert policy.visible(RED, thing, [body]) == [{"one": {"a": 1}, "several": [{"b": 2}]}]
    assert policy.visible(RED, thing, [{"one": None}]) == [{"one": None}]
    assert policy.visible(ADMIN, thing, [body]) == [body]


def test_an_action_has_a_rule_of_its_own(policy):
    add = next(each for each in ROUTER.actions if each.name == "add_router_interface")
    router = {"id": "r", "project_id": "red"}
    answers = [may(policy, who, ROUTER, add, router)[:3] for who in (RED, RED_READER, BLUE, ADMIN)]
    assert answers == ["yes", "403", "404", "yes"]


@pytest.mark.spec("API-02")
def test_a_target_is_read_only_where_a_rule_asks_for_it(policy):
    requested = [
        policy.needs_target(who, PORT, operation, {"name": "x"})
        for who in (ADMIN, RED)
        for operation in (Verb.UPDATE, Verb.DELETE, Verb.SHOW)
    ]
    assert requested == [False, False, False, True, True, True]
    assert [policy.needs_target(who, AGENT, Verb.SHOW, {}) for who in (ADMIN, RED)] == [False, True]
    assert not policy.needs_target(RED, AGENT, Verb.DELETE, {})
    assert may(policy, RED, AGENT, Verb.DELETE, None)[:3] == "404"


@pytest.mark.spec("API-02", "API-09")
def test_list_has_only_visible_rows_and_attributes(policy, looked):
    rows = [
        {**port("red", "n-all"), "binding:host_id": "h1", "binding:vif_type": "ovs"},
        {**port("blue", "n-red"), "binding:host_id": "h2", "binding:vif_type": "ovs"},
        {**port("blue", "n-all"), "binding:host_id": "h3", "binding:vif_type": "ovs"},
    ]
    assert policy.visible(ADMIN, PORT, rows) is rows
    shown = policy.visible(RED, PORT, rows)
    assert shown == [port("red", "n-all"), port("blue", "n-red")]
    assert looked.requested == [("network", frozenset({"n-all", "n-red"}))]
    assert policy.visible(RED, AGENT, [{"id": "a"}]) == []


@pytest.mark.spec("API-09")
def test_shared_and_external_networks_are_seen_by_all(policy):
    seen = [each["id"] for each in policy.visible(RED, NETWORK, [*NETWORKS.values()])]
    assert seen == ["n-red", "n-all", "n-out"]
    assert (
        may(policy, RED, NETWORK, Verb.UPDATE, NETWORKS["n-all"], requested={"name": "x"})[:3]
        == "403"
    )
    assert may(policy, RED, NETWORK, Verb.DELETE, NETWORKS["n-blue"])[:3] == "404"


def test_a_list_is_never_refused_as_a_whole(policy):
    assert may(policy, RED, AGENT, Verb.SHOW, None) == "yes"


def overridden(tmp_path, text, **more):
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    path.chmod(0o644)
    return path, RulesPolicy(RESOURCES, Looked(), path=str(path), **more)


@pytest.mark.spec("API-09")
def test_the_operators_file_replaces_rules_and_is_read_again_when_it_changes(tmp_path):
    path, policy = overridden(tmp_path, "create_network: 'role:network_engineer'\n")
    engineer = RequestContext(project_id="red", roles=frozenset({"network_engineer"}))
    network = NETWORKS["n-red"]
    assert may(policy, RED, NETWORK, Verb.CREATE, network)[:3] == "403"
    assert may(policy, engineer, NETWORK, Verb.CREATE, network) == "yes"
    path.write_text("{}\n")
    policy.reload()
    assert may(policy, RED, NETWORK, Verb.CREATE, network) == "yes"
    path.write_text("create_netwrok: '!'\n")
    with pytest.raises(ConfigError, match="did you mean 'create_network'"):
        policy.reload()
    assert may(policy, RED, NETWORK, Verb.CREATE, network) == "yes"


@pytest.mark.slow
@pytest.mark.parametrize("text", ["owner: 'rule:member'\n", "create_network: 'role:a or b'\n"])
def test_faulty_change_is_logged_in_one_line_without_a_request(tmp_path, caplog, text):
    path, policy = overridden(tmp_path, "{}\n")
    path.write_text(text)
    deadline = time.monotonic() + 60
    while not caplog.records:
        assert time.monotonic() < deadline, "it was not noticed"
        policy.reload_if_changed()
        time.sleep(0.1)
    [line] = caplog.records
    assert line.getMessage().startswith(f"{path}: policy rule ")
    assert line.getMessage().endswith("its former contents stay in force")
    assert line.exc_info is None


def test_administrator_is_decided_by_a_rule(tmp_path):
    _, policy = overridden(tmp_path, "context_is_admin: 'role:cloud_admin'\n")
    cloud = RequestContext(project_id="", roles=frozenset({"Cloud_Admin"}))
    assert (policy.is_admin(cloud), policy.is_admin(ADMIN)) == (True, False)


def test_a_file_that_others_may_write_is_refused(tmp_path):
    path, _ = overridden(tmp_path, "")
    path.chmod(0o666)
    with pytest.raises(ConfigError, match="every user may write it; chmod o-w"):
        RulesPolicy(RESOURCES, Looked(), path=str(path))


def test_a_file_need_not_exist_only_where_it_is_optional(tmp_path):
    path = str(tmp_path / "none.yaml")
    RulesPolicy(RESOURCES, Looked(), path=path, optional=True)
    with pytest.raises(ConfigError, match="there is no such file"):
        RulesPolicy(RESOURCES, Looked(), path=path)


@pytest.mark.parametrize("text", [None, "create_network: [", "create_netwrok: '!'\n"])
def test_a_file_that_cannot_be_used_is_named_with_its_option(tmp_path, text):
    path = tmp_path / "policy.yaml"
    if text is not None:
        path.write_text(text)
        path.chmod(0o644)
    conf = load_config("netfw-server", (), {POLICY_GROUP: POLICY}).conf
    conf.set_override("file", str(path), group=POLICY_GROUP)
    with pytest.raises(ConfigError) as refusal:
        make_policy(conf, RESOURCES, Looked())
    assert str(refusal.value).startswith(f"[policy] file: {path}: ")


def test_the_sample_has_every_rule_and_says_what_is_the_case(tmp_path, policy):
    lines = [line.removeprefix("#") for line in render_sample(policy.declared).splitlines()]
    text = "\n".join(line for line in lines if line.startswith('"'))
    _, same = overridden(tmp_path, text)
    assert text.count("\n") + 1 == len(policy.declared)
    assert may(same, RED, PORT, Verb.CREATE, port("red", "n-red")) == "yes"


def fastest(work, times):
    """Return the least seconds of CPU that *work* takes: other threads do not count."""
    took = []
    for _ in range(times):
        start = time.thread_time()
        work()
        took.append(time.thread_time() - start)
    return min(took)


def test_policy_costs_little(policy):
    requested = {"name": "x", "fixed_ips": [{"ip_address": "10.0.0.9"}], "mac_address": "m"}
    body = port("red", "n-red", **requested)
    one = fastest(lambda: policy.authorize(RED, PORT, Verb.CREATE, body, requested), 50)
    rows = [{**{f"a{n}": n for n in range(25)}, **port("red", "n-red")} for _ in range(1000)]
    many = fastest(lambda: policy.visible(RED, PORT, rows), 30)
    assert (one < 0.0003, many < 0.005) == (True, True), (one, many)
