"""Mutations of the fake router driver that concern highly available routers."""

from attrs import evolve

from netfw.drivers.router import RouterDriver
from netfw.drivers.values.events import ProcessDied
from netfw.drivers.values.router_values import RoleChanged
from netfw.model.router import HaRole
from tests.conformance.common.mutations import Mutations, breaks

MUTATIONS = Mutations()


@MUTATIONS.override("__init__", breaks(RouterDriver, 7))
def become_standby_on_restart(driver, original, backend):
    """Give up the role of the former process at the start."""
    original(backend)
    for router in backend.roles:
        backend.fabric.set_role(backend, router, HaRole.STANDBY)
        for host in backend.fabric.near(backend)[1:]:
            if router in host.roles:
                host.fabric.set_role(host, router, HaRole.ACTIVE)
    backend.probe()


@MUTATIONS.override("status", breaks(RouterDriver, 7))
def forget_the_role_on_restart(driver, original, router):
    """Remember the role of routers that this process converged, instead of reading it."""
    found = original(router)
    return found if router in driver.converged else evolve(found, role=None)


@forget_the_role_on_restart.also("__init__")
def _(driver, original, backend):
    driver.converged = set()
    original(backend)


@forget_the_role_on_restart.also("write_router")
def _(driver, original, router, state):
    driver.converged.add(router)
    original(router, state)


@MUTATIONS.override("__init__", breaks(RouterDriver, 7))
def answer_as_standby(driver, original, backend):
    """Answer for the addresses of a router that is not active."""
    original(backend)
    backend.answers = lambda router: True


@MUTATIONS.override("__init__", breaks(RouterDriver, 7))
def forward_as_standby(driver, original, backend):
    """Forward as a router that is not active."""
    original(backend)
    backend.forwards = lambda router: True


@MUTATIONS.override("__init__", breaks(RouterDriver, 7))
def advertise_as_standby(driver, original, backend):
    """Send router advertisements on each host."""
    original(backend)
    backend.advertises = lambda router: True


@MUTATIONS.override("announce", breaks(RouterDriver, 7))
def announce_as_standby(driver, original, router, address):
    """Announce addresses on each host."""
    driver.backend.announce(driver.backend.gateway_port(router), address)


@MUTATIONS.override("__init__", breaks(RouterDriver, 7))
def preempt(driver, original, backend):
    """Take the role from an active host with a lower priority."""
    original(backend)
    backend.preempts = True


@MUTATIONS.override("__init__", breaks(RouterDriver, 7))
def be_active_everywhere(driver, original, backend):
    """Take no notice of other hosts."""
    original(backend)
    backend.fabric.elected_role = lambda host, router: HaRole.ACTIVE


@MUTATIONS.override("__init__", breaks(RouterDriver, 7))
def never_take_over(driver, original, backend):
    """Keep the first role."""
    original(backend)
    elect = type(backend.fabric).elected_role
    backend.fabric.elected_role = lambda host, router: (
        host.roles.get(router) or elect(backend.fabric, host, router)
    )


@MUTATIONS.override("__init__", breaks(RouterDriver, 7))
def elect_before_the_port_is_wired(driver, original, backend):
    """Take part in the election, deaf to others, before the HA port is wired."""
    original(backend)
    _elect_for_a_fault(backend, HaRole.ACTIVE)


@MUTATIONS.override("__init__", breaks(RouterDriver, 7))
def call_a_fault_a_standby(driver, original, backend):
    """Report a host that takes no part in the election as a standby."""
    original(backend)
    _elect_for_a_fault(backend, HaRole.STANDBY)


def _elect_for_a_fault(backend, instead):
    """Have hosts that take no part in the election get the role *instead*."""
    elect = type(backend.fabric).elected_role

    def elected_role(host, router):
        role = elect(backend.fabric, host, router)
        return instead if role is HaRole.FAULT else role

    backend.fabric.elected_role = elected_role


@MUTATIONS.override("watch", breaks(RouterDriver, 7))
def send_no_role_change(driver, original, sink):
    """Send every event but changes of the role."""
    original(lambda event: None if isinstance(event, RoleChanged) else sink(event))


@MUTATIONS.override("status", breaks(RouterDriver, 7))
def report_no_role(driver, original, router):
    """Leave the role out of the status."""
    return evolve(original(router), role=None)


@MUTATIONS.override("handle_event", breaks(RouterDriver, 7))
def restart_as_active(driver, original, event):
    """Restart a process that died as the active one."""
    original(event)
    if isinstance(event, ProcessDied):
        elect = type(driver.backend.fabric).elected_role
        driver.backend.fabric.elected_role = lambda host, router: (
            HaRole.ACTIVE if host is driver.backend else elect(host.fabric, host, router)
        )


@MUTATIONS.override("write_router", breaks(RouterDriver, 7))
def fail_over_at_each_update(driver, original, router, state):
    """Restart the election of a router for any change."""
    if driver.backend.roles.pop(router, None) is HaRole.ACTIVE:
        driver.backend.probe()
    driver.backend.fabric.elect()
    original(router, state)


@MUTATIONS.override("put_router", breaks(RouterDriver, 6))
def leave_the_ha_process(driver, original, operation, router, state):
    """Leave the process of the election when a highly available router goes."""
    had = driver.backend.ha(router)
    original(operation, router, state)
    if state is None and had is not None:
        driver.backend.junk.add(f"process {router}")


@MUTATIONS.override("write_router", breaks(RouterDriver, 7))
def keep_the_ha_port(driver, original, router, state):
    """Leave a router highly available that no longer is."""
    have = driver.backend.routers.get(router)
    ha = None if have is None else have.full.ha
    original(router, evolve(state, full=evolve(state.full, ha=state.full.ha or ha)))
