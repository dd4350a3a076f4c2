"""Every file and command line, as text in ``golden/``: read it there.

``python tests/unit/backends/dnsmasq/config/test_golden.py`` writes all anew; read the difference.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.backends.dnsmasq.config.cases import NETWORKS, PORTS

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.spec("DHCP-40", "DHCP-43", "DHCP-45")
@pytest.mark.parametrize("case", NETWORKS)
def test_a_network_is_rendered_as_ever(case: str) -> None:
    assert NETWORKS[case]() == (GOLDEN / f"network-{case}.txt").read_text()


@pytest.mark.spec("DHCP-41", "DHCP-42", "DHCP-43")
@pytest.mark.parametrize("case", PORTS)
def test_a_port_is_rendered_as_ever(case: str) -> None:
    assert PORTS[case]() == (GOLDEN / f"port-{case}.txt").read_text()


def test_there_is_no_golden_text_of_nothing() -> None:
    wanted = {f"network-{case}.txt" for case in NETWORKS} | {f"port-{case}.txt" for case in PORTS}
    assert {path.name for path in GOLDEN.iterdir()} == wanted


if __name__ == "__main__":
    for kind, cases in (("network", NETWORKS), ("port", PORTS)):
        for name, make in cases.items():
            (GOLDEN / f"{kind}-{name}.txt").write_text(make())
