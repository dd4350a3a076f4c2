"""When dnsmasq is started with what is new, instead of reading it file by file."""

from __future__ import annotations

import pytest

from netfw_drivers.dnsmasq.plan.reload import restart_is_faster


@pytest.mark.parametrize(
    ("changed", "ports", "leases", "expected"),
    [
        (1, 5000, 5000, False),  # 0.4 s, and 1.8 s for a start
        (10, 5000, 5000, True),  # 4 s, and 1.8 s
        (10, 5000, 0, False),  # 0.3 s, and 0.9 s
        (500, 5000, 0, True),  # 14 s, and 1 s
        (200, 200, 200, False),
        (1000, 1000, 0, True),  # 1.1 s, and 0.6 s
    ],
)
def test_a_start_is_chosen_where_it_is_over_sooner(
    changed: int, ports: int, leases: int, expected: bool
) -> None:
    assert restart_is_faster(changed, ports, leases) is expected


def test_one_port_more_is_never_a_reason() -> None:
    assert not any(restart_is_faster(1, ports, ports) for ports in range(0, 60_000, 500))
