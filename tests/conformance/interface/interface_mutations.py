"""Mutations of the fake interface driver: each breaks one promise of `InterfaceDriver`."""

from attrs import evolve

from netfw.drivers.host_driver import HostCapability, HostDriver
from netfw.drivers.interface import InterfaceCapability, InterfaceDriver
from netfw.drivers.values.subscription import Service
from netfw.errors import BackendUnavailable, Conflict, OperationRefused
from tests.conformance.common.mutations import Mutations, breaks, breaks_raise

MUTATIONS = Mutations()


@MUTATIONS.override("plan", breaks(InterfaceDriver, 1))
def ignore_mtu(driver, original, update, observed):
    """Give every device the default MTU."""
    put = {key: evolve(value, mtu=1500) for key, value in update.put.items()}
    return original(evolve(update, put=put), observed)


@MUTATIONS.override("execute", breaks(InterfaceDriver, 2))
def admit_new_port(driver, original, operation):
    """Admit a new port at once."""
    verb, key, _ = operation.payload
    if verb == "put" and key not in driver.backend.devices:
        driver.backend.admitted.add(key)
    original(operation)


@MUTATIONS.override("execute", breaks(InterfaceDriver, 2))
def revoke_admission_on_change(driver, original, operation):
    """Revoke the admission of a port with each change."""
    original(operation)
    driver.backend.admitted.discard(operation.payload[1])


@MUTATIONS.override("refusals", breaks(InterfaceDriver, 3))
def share_device_name(driver, original, update, observed):
    """Ignore that another port has the device name."""
    return {
        key: error
        for key, error in original(update, observed).items()
        if update.put[key].device in observed.foreign
        or update.put[key].netns not in observed.namespaces
    }


@MUTATIONS.override("refusals", breaks(InterfaceDriver, 3))
def refuse_name_handover(driver, original, update, observed):
    """Refuse a device name that another port has before the update."""
    refused = original(update, observed)
    for key, value in update.put.items():
        holders = {k for k, v in observed.devices.items() if v.device == value.device}
        if holders - {key}:
            refused[key] = Conflict("the name is taken")
    return refused


@MUTATIONS.override("observe", breaks(InterfaceDriver, 4))
def ignore_missing_namespace(driver, original, scope):
    """Put a device elsewhere if its namespace is missing."""
    observed = original(scope)
    wanted = {value.netns for value in scope.put.values()} if scope else set()
    return evolve(observed, namespaces=observed.namespaces | wanted)


@MUTATIONS.override("devices", breaks(InterfaceDriver, 5))
def report_upper_case_names(driver, original):
    """Report devices under names that the host does not have."""
    return {k: evolve(v, name=v.name.upper()) for k, v in original().items()}


@MUTATIONS.override("devices", breaks(InterfaceDriver, 5))
def report_every_device_as_wired(driver, original):
    """Report a device as wired before the switch admitted its port."""
    return {k: evolve(v, wired=True) for k, v in original().items()}


@MUTATIONS.override("watch", breaks(InterfaceDriver, 5), breaks(HostDriver, 9))
def announce_nothing(driver, original, sink):
    """Send no event when a port is wired."""


@MUTATIONS.override("watch", breaks(HostDriver, 9))
def announce_nothing_where_wired_is_unknown(driver, original, sink):
    """Send no event at all, on a switch that does not tell which ports are wired."""


@announce_nothing_where_wired_is_unknown.also("devices")
def _(driver, original):
    return {key: evolve(device, wired=None) for key, device in original().items()}


@MUTATIONS.override("execute", breaks(HostDriver, 4))
def take_refused_operations_for_done(driver, original, operation):
    """Ignore that the kernel refuses an operation."""
    if not driver.backend.refuses:
        original(operation)


@MUTATIONS.override("device_name")
def use_one_prefix(driver, original, port, prefix):
    """Name every device of a port alike."""
    return original(port, "tap")


@MUTATIONS.override("mark_initialized", breaks(InterfaceDriver, 6))
def lose_mark_of_former_driver(driver, original, service):
    """Replace the marks that the backend has."""
    driver.backend.initialized = {Service.L2}


@MUTATIONS.override("mark_initialized", breaks(InterfaceDriver, 6))
def admit_ports_when_initialized(driver, original, service):
    """Change ports beside the mark."""
    original(service)
    driver.backend.admitted.update(driver.backend.devices)


@MUTATIONS.override(
    "mark_initialized", breaks_raise(InterfaceDriver, "mark_initialized", BackendUnavailable)
)
def lose_mark_in_outage(driver, original, service):
    """Ignore that the backend is unreachable."""
    if driver.backend.online:
        original(service)


@MUTATIONS.override("devices", breaks_raise(InterfaceDriver, "devices", BackendUnavailable))
def devices_are_empty_during_outage(driver, original):
    """Return no devices while the backend is unreachable."""
    return original() if driver.backend.online else {}


@devices_are_empty_during_outage.also("present")
def _(driver, original):
    driver.backend.check_online()
    return original()


@MUTATIONS.override("plan", breaks(InterfaceDriver, 1))
def ignore_down(driver, original, update, observed):
    """Bring every device up."""
    put = {key: evolve(value, up=True) for key, value in update.put.items()}
    return original(evolve(update, put=put), observed)


@MUTATIONS.override("plan", breaks(InterfaceDriver, 1))
def replace_dots_in_names(driver, original, update, observed):
    """Replace dots in device names."""
    put = {k: evolve(v, device=v.device.replace(".", "-")) for k, v in update.put.items()}
    return original(evolve(update, put=put), observed)


@MUTATIONS.override("execute", breaks(InterfaceDriver, 1))
def leave_half_made_device(driver, original, operation):
    """Leave a device with another MTU after refusing the desired one."""
    verb, key, value = operation.payload
    if value is not None and value.mtu > 9000:
        original(evolve(operation, payload=(verb, key, evolve(value, mtu=1500))))
        raise OperationRefused({operation: "too large"})
    original(operation)


@MUTATIONS.override("plan", breaks(InterfaceDriver, 4))
def ignore_namespaces(driver, original, update, observed):
    """Declare no namespaces, and ignore them instead of refusing."""
    put = {key: evolve(value, netns=None) for key, value in update.put.items()}
    return original(evolve(update, put=put), observed)


ignore_namespaces.values["CAPABILITIES"] = (HostCapability.PLAN, InterfaceCapability.MTU_CHANGE)


@MUTATIONS.override("device", breaks_raise(InterfaceDriver, "device", BackendUnavailable))
def hide_an_outage_from_device(driver, original, port):
    """Return no device while the backend does not answer."""
    try:
        return original(port)
    except BackendUnavailable:
        return None
