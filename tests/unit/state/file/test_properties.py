"""Whatever stands in a file, it is a topology or errors; what is written is read back."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netfw.model.network import Network
from netfw.model.resource import Kind
from netfw.model.wire import CODECS
from netfw.state.file import render_topology
from netfw.state.file.file_reader import Contents
from netfw.state.file.load import TopologyLoader
from netfw.state.file.schema import KNOWN, SECTIONS
from netfw.state.file.topology import Topology, build_topology
from netfw.testing.conformance.state_source.histories import key, universe
from tests import ROOT

SERVER_ONLY = frozenset(
    {
        Kind.DEFAULT_SECURITY_GROUP_RULE,
        Kind.SUBNET_POOL,
        Kind.ADDRESS_SCOPE,
        Kind.RBAC_POLICY,
    }
)
"""Kinds that no agent reads."""
SAMPLES = sorted((ROOT / "samples/topologies").glob("*.yaml"))

WORDS: list[Any] = [
    *KNOWN, "blue", "a", "", "vxlan", "10.0.0.1", "10.0.0.0/24", "fa:16:3e:00:00:01", "ingress",
    "00000000-0000-0000-0000-000000000001", "network", "host", "rules", "h1", "local_ip", "*",
    "network:dhcp", "\ud800", "x" * 300, "bandwidth_limit", "type", "service", "l3", "dhcp",
    "a\nb", None, True, False, -1, 0, 1, 7, 10**20, 1.5,
]  # fmt: skip


def any_value(chance: random.Random, depth: int = 3) -> Any:
    """Return a random word, list or object, the latter with names that are known somewhere."""
    form = chance.random()
    if depth == 0 or form < 0.5:
        return chance.choice(WORDS)
    if form < 0.7:
        return [any_value(chance, depth - 1) for _ in range(chance.randrange(4))]
    return any_entry(chance, chance.choice(list(Kind)), depth - 1)


def any_entry(chance: random.Random, kind: Kind, depth: int = 3) -> dict[str, Any]:
    known = [*CODECS[kind].names, "network", "subnet", "host", "rules", "security_group"]
    names = chance.sample(known, min(len(known), chance.randrange(8)))
    if chance.random() < 0.2:
        names.append(str(chance.choice(WORDS)))
    return {name: any_value(chance, depth) for name in names} | (
        {"name": chance.choice(("blue", "a", "b"))} if chance.random() < 0.8 else {}
    )


def any_document(chance: random.Random) -> Any:
    if chance.random() < 0.05:
        return any_value(chance)
    document: dict[str, Any] = {}
    for name in chance.sample(KNOWN, chance.randrange(1, 6)):
        kind = SECTIONS.get(name, Kind.AGENT)
        document[name] = [any_entry(chance, kind) for _ in range(chance.randrange(4))]
        if chance.random() < 0.2 or name == "hosts":
            document[name] = {"h1": any_entry(chance, kind), "a": any_value(chance)}
    return document


def check(topology: Topology) -> None:
    assert not (topology.errors and topology.items)
    for error in topology.errors:
        assert "\n" not in str(error)
        str(error).encode()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_any_document_is_a_topology_or_errors(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(60):
        found = [any_document(chance) for _ in range(chance.randrange(1, 3))]
        files = {f"{n}.json": json.dumps(each).encode() for n, each in enumerate(found)}
        check(TopologyLoader().topology(Contents(files)))


@given(st.sampled_from(SAMPLES), st.data())
def test_any_damage_to_a_file_is_a_topology_or_errors(path: Path, data: st.DataObject) -> None:
    content = path.read_bytes()
    at = data.draw(st.integers(0, len(content)))
    length = data.draw(st.integers(0, 40))
    middle = data.draw(
        st.binary(max_size=6) | st.text("[]{}:,-&*!'\"\n ", max_size=6).map(str.encode)
    )
    check(
        TopologyLoader().topology(
            Contents({"t.yaml": content[:at] + middle + content[at + length :]})
        )
    )


@given(st.lists(st.sampled_from(universe()), max_size=25))
def test_what_is_written_is_read_back(drawn: list[Any]) -> None:
    items = list({key(item): item for item in drawn}.values())
    once = build_topology({"t": render_topology(items)})
    assert once.errors == ()
    # A network learns of its segments and subnets; all else is as it was.
    assert {item for item in once.items if not isinstance(item, Network)} == {
        item for item in items if not isinstance(item, Network)
    }
    again = build_topology({"t": render_topology(once.items)})
    assert set(again.items) == set(once.items)


def test_every_kind_of_resource_that_agents_read_has_a_section() -> None:
    assert set(SECTIONS.values()) | SERVER_ONLY == set(Kind)
