"""Whatever stands in a file, it is a topology or faults; what is written is read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from netfw.messaging.file import render_topology
from netfw.messaging.file.place import Contents
from netfw.messaging.file.reading import Reader
from netfw.messaging.file.sections import KNOWN, SECTIONS
from netfw.messaging.file.topology import Topology, build_topology
from netfw.model.network import Network
from netfw.model.resource import Kind
from netfw.model.wire import TABLES
from netfw.testing.conformance.state_history import key, universe

SAMPLES = sorted(Path("samples/topologies").glob("*.yaml"))

words = st.sampled_from(
    [
        *KNOWN, "blue", "a", "", "vxlan", "10.0.0.1", "10.0.0.0/24", "fa:16:3e:00:00:01", "ingress",
        "00000000-0000-0000-0000-000000000001", "network", "host", "rules", "h1", "local_ip", "*",
        "network:dhcp", "\\ud800", "x" * 300, "bandwidth_limit", "type", "service", "l3", "dhcp",
    ]
)  # fmt: skip
names = words | st.sampled_from(sorted({name for kind in Kind for name in TABLES[kind].names}))
values = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 10**20) | st.floats(allow_nan=False) | words,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(names | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=12,
)
entries = st.dictionaries(names, values, max_size=8) | values
documents = (
    st.dictionaries(st.sampled_from(KNOWN), st.lists(entries, max_size=3) | entries) | values
)


def check(topology: Topology) -> None:
    assert not (topology.faults and topology.items)
    for fault in topology.faults:
        assert "\n" not in str(fault)
        str(fault).encode()


@settings(max_examples=400, deadline=None)
@given(st.lists(documents, min_size=1, max_size=2))
def test_any_document_is_a_topology_or_faults(found: list[Any]) -> None:
    files = {f"{n}.json": json.dumps(each).encode() for n, each in enumerate(found)}
    check(Reader().topology(Contents(files)))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(SAMPLES), st.data())
def test_any_damage_to_a_file_is_a_topology_or_faults(path: Path, data: st.DataObject) -> None:
    content = path.read_bytes()
    at = data.draw(st.integers(0, len(content)))
    length = data.draw(st.integers(0, 40))
    middle = data.draw(
        st.binary(max_size=6) | st.text("[]{}:,-&*!'\"\n ", max_size=6).map(str.encode)
    )
    check(Reader().topology(Contents({"t.yaml": content[:at] + middle + content[at + length :]})))


@given(st.lists(st.sampled_from(universe()), max_size=25))
def test_what_is_written_is_read_back(drawn: list[Any]) -> None:
    items = list({key(item): item for item in drawn}.values())
    once = build_topology({"t": render_topology(items)})
    assert once.faults == ()
    # A network learns of its segments and subnets; all else is as it was.
    assert {item for item in once.items if not isinstance(item, Network)} == {
        item for item in items if not isinstance(item, Network)
    }
    again = build_topology({"t": render_topology(once.items)})
    assert set(again.items) == set(once.items)


def test_every_kind_of_resource_has_a_section() -> None:
    assert set(SECTIONS.values()) == set(Kind)
