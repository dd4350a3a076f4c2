"""Which agents are chosen, from values alone."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netfw.model.agent import Agent
from netfw.model.router import Router
from netfw.model.values.ids import AgentId, RouterId
from netfw.model.values.json_document import JsonDocument
from netfw.server.scheduling.choice import (
    Candidate,
    candidates,
    choose,
    ineligibility,
    max_agents,
    serves_floating_ips,
    wanted_agents,
)


def offer(*texts: str) -> list[Candidate]:
    """Return candidates from texts of the form ``host/zone/load``."""
    parts = [text.split("/") for text in texts]
    return [Candidate(host=host, zone=zone or None, load=int(load)) for host, zone, load in parts]


def agent(host: str, **options: Any) -> Agent:
    configurations = JsonDocument(options.pop("configurations", {}))
    return Agent(
        id=AgentId(UUID(int=1)),
        agent_type="L3 agent",
        binary="b",
        host=host,
        configurations=configurations,
        **options,
    )


@pytest.mark.spec("ML2-10")
@pytest.mark.parametrize(
    ("offered", "serving", "wanted", "zones", "chosen"),
    [
        (["a//5", "b//2", "c//2"], [], 1, [], ["b"]),
        (["a//5", "b//2", "c//2"], [], 2, [], ["b", "c"]),
        (["a//0", "b//9"], ["a//0"], 1, [], []),
        (["a//0", "b//9"], ["a//0"], 2, [], ["b"]),
        (["a/x/0", "b/x/0", "c/y/9"], [], 2, [], ["a", "c"]),
        (["a/x/0", "b/x/0", "c/y/9"], ["d/x/0"], 2, [], ["c"]),
        (["a/x/0", "b/y/0"], [], 2, ["y"], ["b"]),
        (["a/x/0"], [], 1, ["z"], []),
        ([], [], 3, [], []),
    ],
)
def test_hosts_are_chosen_by_zone_then_load_then_name(
    offered: list[str], serving: list[str], wanted: int, zones: list[str], chosen: list[str]
) -> None:
    assert list(choose(offer(*offered), offer(*serving), wanted, zones)) == chosen


@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("xy"), st.integers(0, 3))),
    st.integers(0, 5),
    st.randoms(),
)
def test_the_choice_is_the_same_on_all_servers_in_any_order_of_agents(
    drawn: list[tuple[str, str, int]], wanted: int, chance: Any
) -> None:
    known = {host: Candidate(host=host, zone=zone, load=load) for host, zone, load in drawn}
    one, two = list(known.values()), list(known.values())
    chance.shuffle(two)
    chosen = choose(one, (), wanted)
    assert chosen == choose(two, (), wanted)
    assert len(set(chosen)) == len(chosen) == min(wanted, len(known))


def test_agents_that_are_dead_or_switched_off_are_no_candidates() -> None:
    known = [
        agent("a", alive=True, availability_zone="z"),
        agent("b", alive=False),
        agent("c", alive=True, admin_up=False),
    ]
    assert candidates(known, {"a": 3}) == (Candidate(host="a", zone="z", load=3),)


@pytest.mark.parametrize(
    ("mode", "distributed", "can"),
    [
        (None, False, True),
        ("legacy", True, False),
        ("dvr_snat", False, True),
        ("dvr_snat", True, True),
        ("dvr", False, False),
        ("dvr", True, False),
        ("dvr_no_external", False, False),
        ("dvr_no_external", True, False),
        ("edge", False, False),
        ("edge", True, False),
    ],
)
@pytest.mark.spec("L3-60")
def test_the_mode_of_an_agent_says_which_routers_it_can_have(
    mode: str | None, distributed: bool, can: bool
) -> None:
    router = Router(id=RouterId(UUID(int=2)), distributed=distributed)
    assert (not ineligibility(agent("a", configurations={"agent_mode": mode}), router)) is can


@pytest.mark.spec("L3-60")
def test_a_mode_that_does_not_exist_is_named_with_those_that_do() -> None:
    router = Router(id=RouterId(UUID(int=2)))
    reason = ineligibility(agent("a", configurations={"agent_mode": "edge"}), router)
    assert (
        reason == "its mode 'edge' is unknown: it is none of legacy, dvr, dvr_snat, dvr_no_external"
    )


@pytest.mark.spec("L3-60", "L3-68")
@pytest.mark.parametrize(
    ("configurations", "serves"),
    [
        ({}, False),
        ({"agent_mode": "legacy"}, False),
        ({"agent_mode": "dvr"}, True),
        ({"agent_mode": "dvr_snat"}, True),
        ({"agent_mode": "dvr_no_external"}, False),
        ({"agent_mode": "dvr", "enable_inat_enat": False}, True),
        ({"agent_mode": "dvr", "enable_inat_enat": True}, False),
    ],
)
def test_which_agents_serve_the_floating_ips_of_their_hosts(
    configurations: dict[str, Any], serves: bool
) -> None:
    assert serves_floating_ips(agent("a", configurations=configurations)) is serves


def test_only_highly_available_routers_are_on_several_hosts() -> None:
    plain, ha = (Router(id=RouterId(UUID(int=2)), ha=ha) for ha in (False, True))
    assert [wanted_agents(plain, most, 5) for most in (0, 3)] == [1, 1]
    assert [wanted_agents(ha, most, 5) for most in (0, 3)] == [5, 3]
    assert [wanted_agents(ha, most, 300) for most in (0, 3, 270)] == [255, 3, 255]
    assert [max_agents(most) for most in (0, 3, 270)] == [255, 3, 255]
