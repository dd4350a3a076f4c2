"""A host with a switch driver, and instances that are plugged as a compute service would."""

from typing import Any
from uuid import UUID

from netfw.drivers.registry.loader import check_options
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.drivers.values.switch_values import Admission, LocalNetwork, Wiring
from netfw.model.segment import NetworkType, Provider, Segment
from netfw.model.values.ids import NetworkId, PortId, SegmentId
from netfw.testing.lab.host import Host
from netfw.testing.lab.instance import Instance, Plug
from netfw_drivers.ovs.switch.driver import OvsSwitchDriver


def network_id(number: int) -> NetworkId:
    return NetworkId(UUID(int=number << 64))


def port_id(number: int) -> PortId:
    return PortId(UUID(int=number))


def mac(number: int) -> str:
    return f"fa:16:3e:00:00:{number:02x}"


def network(number: int, **provider: Any) -> dict[NetworkKey, LocalNetwork]:
    """Return a network with one segment."""
    kind = NetworkType(provider.pop("network_type", "local"))
    segment = Segment(
        id=SegmentId(UUID(int=number << 64 | 1)),
        network_id=network_id(number),
        provider=Provider(network_type=kind, **provider),
    )
    return {NetworkKey(network_id(number)): LocalNetwork(segments=(segment,), mtu=1450)}


def port(
    number: int, net: int, admission: Admission = Admission.LIVE, **more: Any
) -> dict[PortKey, Wiring]:
    wiring = Wiring(network=network_id(net), mac=mac(number), admission=admission, **more)
    return {PortKey(port_id(number)): wiring}


class SwitchHost:
    """A host of the lab, and drivers on it."""

    def __init__(self, host: Host, **options: Any) -> None:
        self.host, self.ovs = host, host.ovs
        self._options = {
            "datapath_type": "netdev",
            "ovsdb_connection": host.ovs.remote,
            "ovsdb_timeout": 5.0,
            **options,
        }
        self._hosts: list[LocalHostResources] = []
        self.driver = self.start()

    def configure(self, **options: Any) -> None:
        """Set other options for the drivers that are started from now on."""
        self._options |= options

    def start(self) -> OvsSwitchDriver:
        """Start a new driver, as after a restart of the agent; the one before has ended."""
        self.close()
        self._hosts.append(LocalHostResources())
        options = check_options("openvswitch", OvsSwitchDriver, self._options)
        self.driver = OvsSwitchDriver.from_conf(options, self._hosts[-1])
        return self.driver

    def instance(self, number: int, *, tag: int | None = 4095, **more: Any) -> Instance:
        """Make instance 10.0.0.<number> with a device for port <number>."""
        return self.host.instance(
            f"vm{number}",
            Plug(
                bridge="br-int",
                device=f"tap{number}",
                mac=mac(number),
                addresses=(f"10.0.0.{number}/24", f"fd00:1::{number:x}/64"),
                tag=tag,
                mtu=1400,
                external_ids={"iface-id": str(port_id(number)), "attached-mac": mac(number)},
                **more,
            ),
        )

    def flows(self, bridge: str) -> list[str]:
        return self.ovs.ofctl(
            "-OOpenFlow14", "--no-stats", "dump-flows", self.ovs.management(bridge)
        ).splitlines()

    def durations(self, bridge: str) -> dict[str, float]:
        """Return the age of each flow in seconds, by its text."""
        found = {}
        shown = self.ovs.ofctl("-OOpenFlow14", "dump-flows", self.ovs.management(bridge))
        for line in shown.splitlines()[1:]:
            words = dict(
                word.split("=", 1) for word in line.replace(",", " ").split() if "=" in word
            )
            text = line.partition("n_bytes=")[2].partition(",")[2]
            found[f"{words['table']} {text}"] = float(words["duration"].rstrip("s"))
        return found

    def tag(self, number: int) -> str:
        return self.ovs.vsctl("get", "Port", f"tap{number}", "tag").strip()

    def close(self) -> None:
        """End the driver as the end of its process would."""
        while self._hosts:
            self._hosts.pop().close()
