"""A controller on one page: plug two ports, show the plan, apply it, clean up.

No server, no agent, no configuration file, no message bus: a driver, options as a dict, and values.

    python plug.py unix:/run/openvswitch/db.sock br-int
"""

import sys
from uuid import UUID

from netfw.drivers.interface import Attachment, InterfaceDriver
from netfw.drivers.reconciler import Reconciler
from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.model.values.ids import PortId
from netfw.plan import Update

WEB = PortId(UUID("5d0e6a31-7b8f-4f8e-9d1c-000000000001"))
DATABASE = PortId(UUID("5d0e6a31-7b8f-4f8e-9d1c-000000000002"))
WANTED = {
    WEB: Attachment(device="tap-web", mac="fa:16:3e:00:00:01"),
    DATABASE: Attachment(device="tap-db", mac="fa:16:3e:00:00:02", mtu=1400),
}


def main(remote: str, bridge: str) -> int:
    options = {"ovsdb_connection": remote, "integration_bridge": bridge}
    with LocalHostResources() as host:
        driver = create(InterfaceDriver, "openvswitch", options, host)
        assert isinstance(driver, Reconciler), "it declares the capability 'plan'"
        update = Update(put=WANTED)

        print("Plan:")
        print(driver.plan(update, driver.observe(update)))

        outcome = driver.converge(update)
        for port, error in outcome.failed.items():
            print(f"{port} failed: {error}")  # the other ports are done

        print("Present:")
        for port, device in driver.devices().items():
            print(f"{port} {device.name} {device.mac} is port {device.ofport} of the switch")

        print("Second plan:", driver.plan(update, driver.observe(update)))

        driver.gc(keep=[WEB])  # all ports of this driver except the web server's
        print("Kept:", *(device.name for device in driver.devices().values()))
        driver.gc(keep=[])
        driver.close()
    return 0 if outcome.ok else 1


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
