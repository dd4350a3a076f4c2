from netfw.testing.lab.openvswitch import PrivateOvs


def test_a_private_switch_survives_a_restart_of_both_daemons(ovs: PrivateOvs) -> None:
    ovs.add_bridge("br0")
    ovs.stop_switch()
    ovs.stop_database()
    ovs.start_database()
    ovs.start_switch()
    assert ovs.vsctl("list-br") == "br0\n"
    assert "NORMAL" in ovs.ofctl("dump-flows", ovs.management("br0"))
