"""What a trace of the live page says of a packet between two ports."""

from __future__ import annotations

import re

import pytest

from netfw.server.api.live import visible_rules
from tests.server.api.environment import Client
from tests.server.api.live.environment import make_subnet, read, shown, steps, two_ports

pytestmark = pytest.mark.spec("DRV-50")


def test_a_trace_is_decided_by_the_rules_of_both_ports(client: Client) -> None:
    a, b = two_ports(client)
    group = client.list("security-groups")[0]["id"]
    trace = shown(client, "trace", **{"from": a, "to": b})
    assert trace["should_arrive"] is True
    assert trace["is_down"] is True
    assert re.fullmatch(r"icmp from 10\.0\.1\.\d+ to 10\.0\.1\.\d+", trace["packet"])
    assert list(steps(trace).values()) == ["down", "allowed", "allowed", "allowed", "down"]
    assert "(default)" in trace["steps"][3]["lines"][0]
    assert trace["command"] == f"netfw trace {a} {b}"
    for rule in client.list("security-group-rules", direction="ingress"):
        assert client.delete(f"security-group-rules/{rule['id']}").status == 204
    denied = shown(client, "trace", **{"from": a, "to": b, "protocol": "tcp", "port": 80})
    assert denied["should_arrive"] is False
    assert steps(denied)["ingress of port b: security groups"] == "denied"
    assert denied["command"].endswith("--protocol tcp --port 80")
    client.make(
        "security-group-rules", security_group_id=group, direction="ingress", protocol="tcp",
        port_range_min=80, port_range_max=80, remote_group_id=group,
    )  # fmt: skip
    found = shown(client, "trace", **{"from": a, "to": b, "protocol": "tcp", "port": 80})
    assert found["should_arrive"] is True
    assert (
        shown(client, "trace", **{"from": a, "to": b, "protocol": "tcp", "port": 81})[
            "should_arrive"
        ]
        is False
    )


@pytest.mark.parametrize("client", [2], indirect=True)
def test_a_trace_says_that_not_all_rules_and_members_were_read(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visible_rules, "MOST", 3)
    a, b = two_ports(client)
    own, remote = (client.make("security-groups", name=name)["id"] for name in ("own", "remote"))
    assert client.put(f"ports/{b}", {"port": {"security_groups": [own]}}).status == 200
    rule = {"security_group_id": own, "direction": "ingress", "remote_group_id": remote}
    client.make("security-group-rules", **rule)
    question = {"from": a, "to": b}
    assert shown(client, "trace", **question)["steps"][3]["state"] == "denied", "three of three"
    (network,) = (each["id"] for each in client.list("networks"))
    more = {"security_group_id": own, "direction": "egress", "protocol": "tcp"}
    fourth = client.make("security-group-rules", **more)["id"]
    step = shown(client, "trace", **question)["steps"][3]
    assert (step["state"], step["lines"][-1]) == ("unknown", lacks("rules", own))
    assert client.delete(f"security-group-rules/{fourth}").status == 204
    for _ in range(4):
        client.make("ports", network_id=network, security_groups=[remote])
    step = shown(client, "trace", **question)["steps"][3]
    assert (step["state"], step["lines"][-1]) == ("unknown", lacks("ports", remote))
    joined = {"port": {"security_groups": [remote, own]}}
    assert client.put(f"ports/{a}", joined).status == 200
    assert shown(client, "trace", **question)["steps"][3]["state"] == "allowed"


def lacks(what: str, group: str) -> str:
    return f"{what} of security group {group} beyond the first 3 are not read"


def test_a_trace_reads_the_ports_of_a_few_groups(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visible_rules, "MOST_REMOTE_GROUPS", 1)
    a, b = two_ports(client)
    own = client.make("security-groups", name="own")["id"]
    assert client.put(f"ports/{b}", {"port": {"security_groups": [own]}}).status == 200
    rule = {"security_group_id": own, "direction": "ingress"}
    for name in ("x", "y"):
        group = client.make("security-groups", name=name)["id"]
        client.make("security-group-rules", remote_group_id=group, **rule)
    step = shown(client, "trace", **{"from": a, "to": b})["steps"][3]
    assert step["state"] == "unknown"
    assert "the rules name more than 1 groups" in step["lines"][-1]


def test_a_trace_crosses_a_router_that_connects_both_networks(client: Client) -> None:
    a, _ = two_ports(client)
    blue = client.network(name="blue")["id"]
    subnet = make_subnet(client, blue, 2)["id"]
    c = client.make("ports", network_id=blue, name="c")["id"]
    question = {"from": a, "to": c}
    alone = shown(client, "trace", **question)
    assert alone["should_arrive"] is None
    assert "no router that is visible here" in str(alone["steps"])
    router = client.make("routers", name="r")["id"]
    first = next(each["id"] for each in client.list("subnets") if each["cidr"] == "10.0.1.0/24")
    join = f"routers/{router}/add_router_interface"
    assert client.put(join, {"subnet_id": first}).status == 200
    halfway = shown(client, "trace", **question)
    assert halfway["should_arrive"] is False
    assert "neither an interface on network blue nor a route" in str(halfway["steps"])
    assert client.put(join, {"subnet_id": subnet}).status == 200
    whole = shown(client, "trace", **question)
    assert whole["should_arrive"] is True
    assert "network blue" in steps(whole)
    client.put(f"routers/{router}", {"router": {"admin_state_up": False}})
    assert shown(client, "trace", **question)["should_arrive"] is False


@pytest.mark.parametrize("client", [1], indirect=True)
def test_an_interface_is_found_beyond_the_first_page(client: Client) -> None:
    a, _ = two_ports(client)
    blue = client.network(name="blue")["id"]
    subnets = [make_subnet(client, blue, number)["id"] for number in (2, 3)]
    router = client.make("routers", name="r")["id"]
    for subnet in (client.list("subnets", cidr="10.0.1.0/24")[0]["id"], *subnets):
        reply = client.put(f"routers/{router}/add_router_interface", {"subnet_id": subnet})
        assert reply.status == 200
    for subnet in subnets:
        fixed = [{"subnet_id": subnet}]
        target = client.make("ports", network_id=blue, fixed_ips=fixed)["id"]
        assert shown(client, "trace", **{"from": a, "to": target})["should_arrive"] is True


def test_ports_of_others_are_not_traced(client: Client) -> None:
    a, b = two_ports(client)
    bob = client.as_("bob/member")
    assert read(bob, "trace", **{"from": a, "to": b}).status == 404


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ({}, "from"),
        ({"from": "a", "to": "b", "protocol": "x"}, "protocol"),
        ({"from": "a", "to": "b", "protocol": "tcp"}, "port"),
        ({"from": "a", "to": "b", "protocol": "tcp", "port": "65536"}, "port"),
        ({"from": "a", "to": "b", "version": "5"}, "version"),
    ],
)
def test_wrong_questions_are_refused(client: Client, query: dict[str, str], wrong: str) -> None:
    reply = read(client, "trace", **query)
    assert reply.status == 400
    assert wrong in reply.error["message"]
