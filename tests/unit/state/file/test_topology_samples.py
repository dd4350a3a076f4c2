"""The samples are good topologies, without anything to be cautious of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from netfw.errors import InvalidInput
from netfw.model.agent import Agent
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.values.device_owner import is_distributed
from netfw.state.file import read_topology, render_topology
from tests import ROOT

SAMPLES = sorted((ROOT / "samples/topologies").glob("*.yaml"))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_a_sample_is_without_errors(path: Path) -> None:
    topology = read_topology(path)
    assert topology.warnings == ()
    ports = [item for item in topology.items if isinstance(item, Port)]
    assert ports
    assert all(port.fixed_ips for port in ports)
    assert all(p.binding.all_hosts or is_distributed(p.device_owner) for p in ports)


def test_there_are_samples_for_one_host_and_for_two() -> None:
    hosts = {
        path.name: sum(isinstance(item, Agent) for item in read_topology(path).items)
        for path in SAMPLES
    }
    assert set(hosts.values()) >= {1, 2}


def test_two_hosts_have_a_tunnelled_and_a_tagged_network() -> None:
    items = read_topology(ROOT / "samples/topologies/two-hosts.yaml").items
    networks = {item.name: item for item in items if isinstance(item, Network)}
    assert [networks[name].segments[0].network_type for name in ("blue", "green")] == [
        "vxlan",
        "vlan",
    ]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_a_sample_survives_being_written_and_read(path: Path, tmp_path: Path) -> None:
    topology = read_topology(path)
    copy = tmp_path / "copy.json"
    copy.write_text(json.dumps(render_topology(topology.items)))
    assert set(read_topology(copy).items) == set(topology.items)


@pytest.mark.parametrize("page", ["file-source.md", "dhcp.md"])
def test_the_example_of_the_manual_is_good(tmp_path: Path, page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    examples = [part.split("```")[0] for part in text.split("```yaml\n")[1:]]
    assert examples
    for example in examples:
        file = tmp_path / "example.yaml"
        file.write_text(example)
        assert read_topology(file).warnings == ()


def test_an_invalid_file_is_refused_with_all_its_errors(tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    file.write_text("ports: 1\nsubnets: 2\n")
    with pytest.raises(InvalidInput) as caught:
        read_topology(file)
    assert caught.value.problems == {
        f"{file}:1: ports": "not a list: 1",
        f"{file}:2: subnets": "not a list: 2",
    }
