"""The status files of a file source have what is on the host now, and nothing else."""

import json
from pathlib import Path

import pytest

from netfw.drivers.host_driver import HostCapability
from netfw.drivers.values.router_values import MAX_HA_PEERS
from netfw.model.resource import Kind
from netfw.model.router import HaRole
from netfw.model.values.ids import RouterId
from netfw.state.file import FileSource
from netfw.state.file.name_resolution import id_of
from tests.unit.agents.l3.environment import HERE, L3Environment

TEXT = """
networks: [{name: n}, {name: out, "router:external": true}, {name: ha}]
subnets:
- {name: s, network: n, cidr: 10.0.0.0/24}
- {name: o, network: out, cidr: 203.0.113.0/24}
- {name: h, network: ha, cidr: 169.254.192.0/18, gateway_ip: null}
routers:
- {name: r, ha: true, vrid: 7, external_gateway_info: {network: out}}
ports:
- {name: inside, network: n, router: r, hosts: [here, there], fixed_ips: [10.0.0.1]}
- {name: outside, network: out, router: r, hosts: [here, there], fixed_ips: [203.0.113.2]}
- {name: ha1, network: ha, router: r, device_owner: OWNER, host: here, fixed_ips: [169.254.192.1]}
- {name: ha2, network: ha, router: r, device_owner: OWNER, host: there, fixed_ips: [169.254.192.2]}
- {name: web, network: n, host: there, fixed_ips: [10.0.0.9]}
floatingips:
- {floating_network: out, floating_ip_address: 203.0.113.100, port: web}
assignments:
- {service: l3, host: there, router: r}
- {service: l3, host: here, router: r}
""".replace("OWNER", "network:router_ha_interface")
HA_ROUTER = "ha: true, vrid: 7"
WEB = "- {name: web, "
ONE_HOST = "\n".join(
    line.replace("hosts: [here, there]", "host: there")
    for line in TEXT.splitlines()
    if "router_ha_interface" not in line and "l3, host: there" not in line
)
"""The same without the parts of a highly available router; another host has the ports."""
ROUTER = RouterId(id_of(Kind.ROUTER, "r"))


def ha_port(number: int) -> str:
    """Return the line of an HA port on another host."""
    at = f"host: h{number}, fixed_ips: [169.254.193.{number}]"
    owner = "device_owner: network:router_ha_interface"
    return f"- {{name: more{number}, network: ha, router: r, {owner}, {at}}}\n"


class FileEnvironment(L3Environment):
    """An L3 agent whose source is a file, and the file."""

    def __init__(self, path: Path, text: str = TEXT) -> None:
        self.path = path
        path.write_text(text)
        super().__init__(source=FileSource(path, debounce=0, poll=1000))

    def change(self, old: str = "", new: str = "", text: str = TEXT) -> None:
        """Write *text* with a part of it replaced, and have the source read it."""
        assert old in text
        self.path.write_text(text.replace(old, new) if old else text)
        assert self.source.refresh() == ()

    def statuses(self) -> dict[str, tuple[str | None, str | None, str]]:
        """Return status, role and reason of each resource in the status file of this host."""
        self.source.flush()
        text = Path(f"{self.path}.status.{HERE}.l3.json").read_text()
        found: dict[str, tuple[str | None, str | None, str]] = {}
        for line in json.loads(text)["resources"]:
            status, role, reason = found.get(line["kind"], (None, None, ""))
            found[line["kind"]] = (
                line.get("status", status), line.get("role", role), line.get("reason", reason),
            )  # fmt: skip
        return found

    def until_written(self, kind: str, status: str | None, role: str | None) -> str:
        """Turn the loop until a resource has these in the status file; return the reason."""
        self.until(lambda _: self.statuses().get(kind, (None, None, ""))[:2] == (status, role), 1.0)
        return self.statuses().get(kind, (None, None, ""))[2]


@pytest.fixture
def found(tmp_path):
    """Yield an agent that is active for its router and has reported it."""
    made = FileEnvironment(tmp_path / "net.yaml")
    made.ready()
    made.router.change_role(ROUTER, HaRole.ACTIVE)
    made.until_written("router", "ACTIVE", "active")
    made.until_written("floatingip", "ACTIVE", None)
    yield made
    made.agent.close()
    made.source.close()


@pytest.mark.spec("L3-41", "DRV-21")
def test_router_that_is_assigned_to_other_hosts_only_leaves_the_file(found):
    found.change("- {service: l3, host: here, router: r}\n", "")
    found.until(lambda _: found.router.routers() == {})
    found.router.change_role(ROUTER, HaRole.STANDBY)  # a late event
    found.turn(2.0)
    assert found.statuses() == {}


@pytest.mark.spec("L3-41", "DRV-21")
def test_router_that_is_down_is_in_fault_here(found):
    found.change("name: r, ", "name: r, admin_state_up: false, ")
    reason = found.until_written("router", "DOWN", "fault")
    assert reason == "the router is administratively down"
    assert found.until_written("floatingip", "DOWN", None) == reason
    assert found.loop.status.warnings == {}, "nothing is wrong"
    found.change()
    found.until_written("router", "ACTIVE", "active")


@pytest.mark.spec("L3-41", "DRV-21")
def test_router_that_is_no_longer_highly_available_has_no_role(found):
    found.change(HA_ROUTER, "ha: false", ONE_HOST)
    found.until_written("router", "ACTIVE", None)
    found.change()
    found.until_written("router", "ACTIVE", "active")


@pytest.mark.slow
@pytest.mark.spec("L3-41", "DRV-21")
def test_router_that_is_refused_is_an_error_and_in_fault(found):
    found.change(WEB, "".join(map(ha_port, range(MAX_HA_PEERS))) + WEB)
    assert "at most" in found.until_written("router", "ERROR", "fault")
    assert "at most" in found.until_written("floatingip", "DOWN", None)
    found.change()
    found.until_written("router", "ACTIVE", "active")


@pytest.mark.spec("DRV-21")
def test_router_whose_last_part_leaves_the_host_is_down(found):
    found.change(HA_ROUTER, "distributed: true", ONE_HOST)
    assert "no part of it" in found.until_written("router", "DOWN", None)
    assert "no part of it" in found.until_written("floatingip", "DOWN", None)


@pytest.mark.spec("L3-41", "DRV-21")
def test_router_that_a_former_agent_ran_and_this_one_cannot_is_in_fault(found):
    found.agent.close()
    found.router.CAPABILITIES = (HostCapability.PLAN, HostCapability.WATCH)
    found.begin()
    assert "does not have" in found.until_written("router", "ERROR", "fault")
