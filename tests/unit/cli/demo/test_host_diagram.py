"""The diagram of two hosts."""

from __future__ import annotations

from netfw.cli.demo.host_diagram import render_hosts


def test_hosts_are_side_by_side_and_linked_at_their_first_lines() -> None:
    lines = render_hosts({"host1": ["standby"], "host2": ["active", "10.4.0.1"]}, "VRRP")
    assert list(lines) == [
        "host1             host2",
        "+----------+      +----------+",
        "| standby  |-VRRP-| active   |",
        "|          |      | 10.4.0.1 |",
        "+----------+      +----------+",
    ]
