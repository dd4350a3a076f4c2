"""Packets that a test hands to a switch."""

from netfw.testing.lab.openvswitch import PrivateOvs


def packet_out(ovs: PrivateOvs, data: str, actions: str) -> None:
    """Execute *actions* in bridge br0 on a packet that begins with the hexadecimal *data*."""
    packet = bytes.fromhex(data).ljust(60, b"\0").hex()
    ovs.ofctl(
        "packet-out", ovs.management("br0"), f"in_port=controller,packet={packet},actions={actions}"
    )
