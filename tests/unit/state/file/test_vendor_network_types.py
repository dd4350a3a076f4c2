"""Segments of a vendor's type in a topology file."""

from pathlib import Path

import pytest

from netfw.drivers.server.type_driver import TypeDriver
from netfw.model.segment import NetworkType, Segment
from tests.unit.drivers.registry.conftest import forget_modules, site
from tests.unit.drivers.registry.vendor_site import GOOD, Site
from tests.unit.state.file.topology_samples import errors_of, good, the

__all__ = ["forget_modules", "site"]

pytestmark = pytest.mark.real

FABRIC = """
networks: [{name: red, network_type: acme-fabric, segmentation_id: 7, physical_network: leaf}]
hosts: {h1: {local_ip: 192.0.2.1, tunnel_types: [acme-fabric]}}
"""


def test_type_of_an_installed_type_driver_is_accepted(site: Site, tmp_path: Path) -> None:
    assert [error.partition(" is none of")[0] for error in errors_of(FABRIC)] == [
        "0.yaml:2: networks[0].network_type: 'acme-fabric'",
        "0.yaml:3: hosts.h1.tunnel_types[0]: 'acme-fabric'",
    ]
    site.install(
        "acme", GOOD, name="acme-fabric", distribution="acme", cls="Acme", group=TypeDriver.GROUP
    )
    segment = the(Segment, good(FABRIC))
    assert segment.provider.network_type == NetworkType("acme-fabric")
