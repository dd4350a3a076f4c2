"""What a client tells the switch once and for all, on real switches."""

import time

from netfw.ovs.openflow import OpenFlow
from netfw.testing.lab.openvswitch import PrivateOvs
from tests.lab.ovs.openflow.packets import packet_out

DATAGRAM = (
    "020000000002 020000000001 08004500001c 00000000 0911 2dce c0000201 c000020200010002 00080000"
)


def fragments(ovs: PrivateOvs) -> str:
    return ovs.ofctl("get-frags", ovs.management("br0")).strip()


def until(ovs: PrivateOvs, expected: str) -> None:
    deadline = time.monotonic() + 60
    while fragments(ovs) != expected:
        assert time.monotonic() < deadline, fragments(ovs)
        time.sleep(0.01)


def test_first_fragments_are_matched_by_their_ports_also_after_a_restart(
    ovs: PrivateOvs, client: OpenFlow
) -> None:
    assert fragments(ovs) == "normal"
    client.match_first_fragments()
    until(ovs, "nx-match")
    ovs.stop_switch()
    ovs.start_switch()
    until(ovs, "nx-match")


def test_the_connections_of_one_zone_are_forgotten(ovs: PrivateOvs, client: OpenFlow) -> None:
    for zone in (7, 8):
        packet_out(ovs, DATAGRAM, f"ct(commit,zone={zone})")
    assert _zones(ovs) == {7, 8}
    client.flush_zone(7)
    assert _zones(ovs) == {8}


def _zones(ovs: PrivateOvs) -> set[int]:
    output = ovs.appctl("dpctl/dump-conntrack").splitlines()
    return {int(line.partition("zone=")[2].partition(",")[0]) for line in output if "zone=" in line}
