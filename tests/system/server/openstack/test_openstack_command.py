"""The unchanged ``openstack`` command against a server without authentication.

Each call takes seconds to load its plug-ins, so there are few, and they are batched: the command
reads several lines from its standard input.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.server.environment import RunningServer

COMMANDS = """
network create --provider-network-type vlan --provider-physical-network physnet1 cli-net
subnet create --network cli-net --subnet-range 10.7.0.0/24 --dns-nameserver 192.0.2.53 cli-four
subnet create --network cli-net --ip-version 6 --subnet-range 2001:db8:7::/64 cli-six
subnet set --host-route destination=10.8.0.0/16,gateway=10.7.0.9 cli-four
subnet set --no-dhcp cli-four
network set --description words --mtu 1400 --tag red cli-net
port create --network cli-net --fixed-ip subnet=cli-four,ip-address=10.7.0.42 --tag blue cli-port
port set --extra-dhcp-option name=mtu,value=1400 cli-port
port set --disable --allowed-address ip-address=10.7.0.99 --description words cli-port
port unset --tag blue cli-port
port list --network cli-net --fixed-ip ip-address=10.7.0.42 --long
router create cli-router
router add subnet cli-router cli-four
router set --route destination=10.99.0.0/16,gateway=10.7.0.50 cli-router
router show cli-router
router unset --route destination=10.99.0.0/16,gateway=10.7.0.50 cli-router
router remove subnet cli-router cli-four
router delete cli-router
network create --external --provider-network-type flat --provider-physical-network physnet3 cli-out
subnet create --network cli-out --subnet-range 198.51.100.0/24 --no-dhcp cli-out-four
floating ip create --description words cli-out
floating ip list --network cli-out
router create --external-gateway cli-out cli-edge
network create cli-edge-net
subnet create --network cli-edge-net --subnet-range 10.9.0.0/24 cli-edge-four
router add subnet cli-edge cli-edge-four
port create --network cli-edge-net --fixed-ip subnet=cli-edge-four,ip-address=10.9.0.9 cli-web
floating ip create --floating-ip-address 198.51.100.77 cli-out
floating ip port forwarding create --port cli-web --internal-ip-address 10.9.0.9 \
--internal-protocol-port 80 --external-protocol-port 8080 --protocol TCP 198.51.100.77
floating ip port forwarding create --port cli-web --internal-ip-address 10.9.0.9 \
--internal-protocol-port 5000:5009 --external-protocol-port 6000:6009 --protocol udp \
--description words 198.51.100.77
floating ip port forwarding list --sort-column Protocol 198.51.100.77
floating ip show 198.51.100.77
network qos rule type list
network qos policy create --share --description words cli-qos
network qos rule create --type bandwidth-limit --max-kbps 1000 --egress cli-qos
network qos rule create --type minimum-bandwidth --min-kbps 10 --ingress cli-qos
network qos rule list cli-qos
network qos policy create cli-limit
network qos rule create --type bandwidth-limit --max-kbps 500 --ingress cli-limit
port set --qos-policy cli-qos cli-port
port unset --qos-policy cli-port
floating ip set --qos-policy cli-limit 198.51.100.77
floating ip unset --qos-policy 198.51.100.77
router set --external-gateway cli-out --qos-policy cli-limit cli-edge
router unset --qos-policy cli-edge
network set --qos-policy cli-qos cli-net
network set --no-qos-policy cli-net
network qos policy show cli-qos
network qos policy delete cli-qos cli-limit
security group create cli-group
security group rule create --protocol tcp --dst-port 80:90 --remote-ip 10.0.0.0/8 cli-group
security group rule create --protocol icmp --ingress cli-group
security group rule create --protocol udp --egress --ethertype IPv6 cli-group
security group rule list cli-group
security group show cli-group
security group delete cli-group
port delete cli-port
network agent list
availability zone list --network
network list --long --tags red
subnet list --network cli-net
network show -f json cli-net
""".strip().splitlines()


@pytest.mark.spec("API-11")
@pytest.mark.timeout(300)
def test_an_operator_s_day(server: RunningServer, tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("openstack")
    done = subprocess.run(
        [program],
        input="\n".join(COMMANDS),
        env=server.environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.stderr.strip() == ""
    assert "6000:6009" in done.stdout
    shown = json.loads(done.stdout[done.stdout.rindex("{\n") : done.stdout.rindex("}") + 1])
    assert (shown["mtu"], shown["tags"], len(shown["subnets"])) == (1400, ["red"], 2)
    assert shown["provider:segmentation_id"] in range(100, 200)
