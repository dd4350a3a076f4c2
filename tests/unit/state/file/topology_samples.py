"""A network in a topology file, and the reading of such files."""

from __future__ import annotations

from typing import TypeVar

from netfw.state.file.file_reader import Contents
from netfw.state.file.load import TopologyLoader
from netfw.state.file.topology import Topology

T = TypeVar("T")
BLUE = """
networks:
- {name: blue, network_type: vxlan, segmentation_id: 7}
subnets:
- {name: blue-v4, network: blue, cidr: 10.0.0.0/24}
- {name: blue-v6, network: blue, cidr: "2001:db8::/64", gateway_ip: null}
"""


def topology(*texts: str) -> Topology:
    files = {f"{number}.yaml": text.encode() for number, text in enumerate(texts)}
    return TopologyLoader().topology(Contents(files))


def good(*texts: str) -> Topology:
    found = topology(*texts)
    assert found.errors == ()
    return found


def errors_of(*texts: str) -> list[str]:
    return [str(error) for error in topology(*texts).errors]


def the(kind: type[T], found: Topology) -> T:
    (item,) = (item for item in found.items if isinstance(item, kind))
    return item


def all_of(kind: type[T], found: Topology) -> list[T]:
    return [item for item in found.items if isinstance(item, kind)]
