"""A part of the server's section: a QoS policy limits a running port."""

from __future__ import annotations

import socket
import time
from typing import Any

from netfw.cli.demo.report import DemoReport
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.wait import wait_until

UDP_PORT = 5001
OCTETS, DATAGRAMS = 1250, 500
BITS = OCTETS * 8
KBPS, BURST = 1000, 200
"""The limit, in kilobits per second, and its burst, in kilobits."""


def demo_limits(report: DemoReport, network: Any, sender: Instance, receiver: Instance) -> None:
    """Limit what the port of *sender* sends; then remove the limit."""
    report.step("Limit a running port", [f"a QoS policy: {KBPS} kbit/s from red1, 10 Mbit/s sent"])
    group = network.find_security_group("default", ignore_missing=False)
    network.create_security_group_rule(
        security_group_id=group.id, direction="ingress", protocol="udp"
    )
    port = network.find_port("red1", ignore_missing=False)
    target = network.find_port("red2", ignore_missing=False).fixed_ips[0]["ip_address"]
    policy = network.create_qos_policy(name="slow")
    network.create_qos_bandwidth_limit_rule(
        policy, max_kbps=KBPS, max_burst_kbps=BURST, direction="egress"
    )
    wait_until(lambda: _transfer(sender, receiver, target)[0] > DATAGRAMS * 0.9, "all arrive")
    network.update_port(port.id, qos_policy_id=policy.id)
    wait_until(lambda: _transfer(sender, receiver, target)[0] < DATAGRAMS / 2, "the limit is there")
    count, seconds = _transfer(sender, receiver, target)
    most = (KBPS * seconds + BURST) * 1000 / BITS
    report.say(f"{count} of {DATAGRAMS} datagrams arrive; the limit allows {most:.0f}")
    report.check("the switch keeps the limit", 0 < count <= most * 1.1)
    network.update_port(port.id, qos_policy_id=None)
    again = wait_until(lambda: _transfer(sender, receiver, target)[0] > DATAGRAMS * 0.9, "no limit")
    network.delete_qos_policy(policy.id)
    report.check("without the policy, they arrive again", again)


def _transfer(sender: Instance, receiver: Instance, target: str) -> tuple[int, float]:
    """Send datagrams at 10 Mbit/s; return how many arrived, and the seconds that it took."""
    count, began = 0, time.monotonic()
    with (
        receiver.call(socket.socket, socket.AF_INET, socket.SOCK_DGRAM) as inbox,
        sender.call(socket.socket, socket.AF_INET, socket.SOCK_DGRAM) as outbox,
    ):
        inbox.bind(("", UDP_PORT))
        inbox.settimeout(0)
        for number in range(DATAGRAMS):
            outbox.sendto(bytes(OCTETS), (target, UDP_PORT))
            time.sleep(max(0.0, began + (number + 1) * 0.001 - time.monotonic()))
            count += _received(inbox)
        sent = time.monotonic() - began
        inbox.settimeout(0.2)
        return count + _received(inbox), sent


def _received(inbox: socket.socket) -> int:
    """Count the datagrams that are there."""
    count = 0
    while True:
        try:
            inbox.recv(OCTETS)
        except OSError:
            return count
        count += 1
