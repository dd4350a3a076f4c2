"""Mutations of the fake switch driver: each breaks one promise."""

from attrs import evolve

from netfw.drivers.switch import SwitchDriver
from netfw.drivers.values.events import FeedLost
from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.drivers.values.switch_values import (
    Admission,
    Forwarding,
    LocalNetwork,
    SwitchFacts,
    Tunnel,
    Wiring,
)
from netfw.errors import BackendUnavailable, ConfigError, Conflict, NotSupported
from netfw.ovs.openflow.messages import encoding_problem
from netfw.plan import Outcome, Stage
from tests.conformance.common.mutations import Mutations, breaks, breaks_raise

MUTATIONS = Mutations()
DEAD, HOLD, LIVE = Admission.DEAD, Admission.HOLD, Admission.LIVE


@MUTATIONS.override("__init__", breaks(SwitchDriver, 1))
def deliver_all_networks_to_unwired_port(driver, original, *arguments):
    """Treat a port without a tag as a trunk."""
    original(*arguments)
    driver.backend.faults.add("trunks")


@MUTATIONS.override("__init__", breaks(SwitchDriver, 1, 3))
def accept_tags_of_ports(driver, original, *arguments):
    """Deliver a tagged frame into the network of its tag."""
    original(*arguments)
    driver.backend.faults.add("tags")


@MUTATIONS.override("__init__", breaks(SwitchDriver, 1))
def learn_from_dead_port(driver, original, *arguments):
    """Learn MACs from frames of a dead port."""
    original(*arguments)
    driver.backend.faults.add("learning")


@MUTATIONS.override("admission", breaks(SwitchDriver, 1))
def leave_dead_port_live(driver, original, key, value, *states):
    """Leave a live port live when it is to be DEAD."""
    _, observed = states
    if value.admission is DEAD and key.port in observed.live:
        return []
    return original(key, value, *states)


@MUTATIONS.override("stages", breaks(SwitchDriver, 1))
def leave_dropped_port_live(driver, original, fresh, gone, *states):
    """Leave a dropped port live."""
    parting, making, admitting, breaking = original(fresh, gone, *states)
    kept = (o for o in parting if o.payload[1] not in gone or NetworkKey in map(type, gone))
    return [tuple(kept), making, admitting, breaking]


@MUTATIONS.override("is_shut", breaks(SwitchDriver, 1))
def pass_filtered_port(driver, _, value):
    """Ignore ``filtered``."""
    return False


@MUTATIONS.override("admission", breaks(SwitchDriver, 2))
def filter_port_on_hold(driver, original, key, value, *states):
    """Filter a port on HOLD at once."""
    live = value.admission is HOLD and value.filtered
    early = evolve(value, admission=LIVE) if live else value
    return original(key, early, *states)


@MUTATIONS.override("admission", breaks(SwitchDriver, 2))
def admit_port_on_hold(driver, original, key, value, *states):
    """Treat HOLD as LIVE."""
    early = evolve(value, admission=LIVE) if value.admission is HOLD else value
    return original(key, early, *states)


@MUTATIONS.override("admission", breaks(SwitchDriver, 2))
def cut_port_on_hold(driver, original, key, value, *states):
    """Treat HOLD as DEAD."""
    dead = evolve(value, admission=DEAD) if value.admission is HOLD else value
    return original(key, dead, *states)


@MUTATIONS.override("stages", breaks(SwitchDriver, 2))
def prepare_on_admission(driver, original, fresh, gone, *states):
    """Prepare a port on HOLD when it becomes LIVE."""
    parting, making, admitting, breaking = original(fresh, gone, *states)
    final, _ = states
    again = tuple(driver.operation("put", o.payload[1], final[o.payload[1]]) for o in admitting)
    return [parting, making, again, admitting, breaking]


@MUTATIONS.override("stages", breaks(SwitchDriver, 3))
def admit_before_leaving(driver, original, fresh, gone, *states):
    """Move a port into a network before the others have left it."""
    parting, making, admitting, breaking = original(fresh, gone, *states)
    leaving = tuple(o for o in parting if o.payload[1] in gone)
    admitted = {o.payload[1] for o in admitting}
    dying = tuple(o for o in parting if o not in leaving and o.payload[1] not in admitted)
    return [leaving + dying, making, admitting, breaking]


@MUTATIONS.override("plan", breaks(SwitchDriver, 3))
def leave_removed_port_live_after_refusal(driver, original, update, observed):
    """Leave removed ports live if a key is refused."""
    plan = original(update, observed)
    if not (plan.refused and update.complete):
        return plan
    stages = ([o for o in stage.operations if o.payload[0] != "shut"] for stage in plan.stages)
    return evolve(plan, stages=tuple(Stage(tuple(stage)) for stage in stages if stage))


@MUTATIONS.override("refusals", breaks(SwitchDriver, 3))
def share_segment_between_networks(driver, original, update, observed, going):
    """Accept two networks on one segment."""
    refused = original(update, observed, going)
    return {k: e for k, e in refused.items() if not isinstance(update.put[k], LocalNetwork)}


@MUTATIONS.override("execute", breaks(SwitchDriver, 3))
def flood_every_tunnel(driver, original, verb, key, value):
    """Treat every tunnel as a full mesh."""
    original(verb, key, meshed(value))


@flood_every_tunnel.also("differs")
def _(driver, original, key, value, observed):
    return original(key, meshed(value), observed)


def meshed(value):
    return evolve(value, mesh=True) if isinstance(value, Tunnel) else value


@MUTATIONS.override("execute", breaks(SwitchDriver, 3))
def disable_arp_responder(driver, original, verb, key, value):
    """Ignore the addresses of forwarding entries."""
    original(verb, key, without_addresses(value))


@disable_arp_responder.also("differs")
def _(driver, original, key, value, observed):
    return original(key, without_addresses(value), observed)


@MUTATIONS.override("execute", breaks(SwitchDriver, 3))
def answer_for_withdrawn_addresses(driver, original, verb, key, value):
    """Keep the addresses of a forwarding entry when it changes."""
    former = driver.backend.values.get(key)
    if verb == "put" and isinstance(former, Forwarding):
        value = evolve(value, addresses=former.addresses | value.addresses)
    original(verb, key, value)


def without_addresses(value):
    return evolve(value, addresses=frozenset()) if isinstance(value, Forwarding) else value


@MUTATIONS.override("execute", breaks(SwitchDriver, 4))
def keep_vlan_of_dropped_network(driver, original, verb, key, value):
    """Keep the local VLAN of a dropped network."""
    number = driver.backend.vlans.get(key)
    original(verb, key, value)
    if number is not None:
        driver.backend.vlans[key] = number


@MUTATIONS.override("plan", breaks(SwitchDriver, 4))
def ignore_missing_network(driver, original, update, observed):
    """Report a port without a network as done."""
    plan = original(update, observed)
    kept = {key: why for key, why in plan.waiting.items() if why != "no network"}
    return evolve(plan, waiting=kept)


@MUTATIONS.override("differs", breaks(SwitchDriver, 5))
def rewrite_unchanged_keys(driver, _, key, value, observed):
    """Rewrite what is as desired already."""
    return True


@MUTATIONS.override("converge", breaks(SwitchDriver, 5))
def clear_ports_on_first_update(driver, original, update):
    """Remove all ports with the first update of a new driver."""
    if not getattr(driver, "begun", False):
        driver.begun = True
        driver.backend.check_online()
        for key in [key for key in driver.backend.values if isinstance(key, PortKey)]:
            driver.execute("shut", key, None)
            driver.execute("drop", key, None)
    return original(update)


@MUTATIONS.override("execute", breaks(SwitchDriver, 5))
def interrupt_all_ports_on_admission(driver, original, verb, key, value):
    """Cut all ports off for a moment when a port is admitted."""
    if verb == "admit":
        live = dict(driver.backend.live)
        driver.backend.live.clear()
        driver.backend.touch("something")
        driver.backend.live.update(live)
    original(verb, key, value)


@MUTATIONS.override("wait", breaks(SwitchDriver, 6))
def wire_missing_device(driver, original, key, value, *states):
    """Wire a port whose device is missing."""
    why = original(key, value, *states)
    return "" if why == "no device" else why


@MUTATIONS.override("watch", breaks(SwitchDriver, 6))
def emit_no_events(driver, _, sink):
    """Declare events, and emit none."""


@MUTATIONS.override("devices", breaks(SwitchDriver, 6))
def hide_unwired_devices(driver, original):
    """Leave unwired ports out of ``devices``."""
    return {p: d for p, d in original().items() if PortKey(p) in driver.backend.values}


@MUTATIONS.override("watch", breaks(SwitchDriver, 7))
def hide_feed_loss(driver, original, sink):
    """Swallow the event of a lost feed."""
    original(lambda event: None if isinstance(event, FeedLost) else sink(event))


@MUTATIONS.override("observe", breaks(SwitchDriver, 7))
def observe_own_admissions(driver, original, scope):
    """Observe the admissions that were written."""
    observed = original(scope)
    return evolve(observed, live={**driver.written, **observed.live})


@observe_own_admissions.also("execute")
def _(driver, original, verb, key, value):
    original(verb, key, value)
    if verb == "admit":
        driver.written[key.port] = value
    elif verb == "shut":
        driver.written.pop(key.port, None)


@observe_own_admissions.also("__init__")
def _(driver, original, *arguments):
    original(*arguments)
    driver.written = {}


@MUTATIONS.override("make_grant", breaks(SwitchDriver, 8))
def grant_same_register_bits_twice(driver, original, request):
    """Grant the first register bits to every request."""
    driver.bit = 0
    return original(request)


@MUTATIONS.override("__init__", breaks(SwitchDriver, 8))
def grant_tables_in_random_order(driver, original, *arguments):
    """Grant tables in another order with each driver object."""
    original(*arguments)
    turn = len(driver.backend.faults)
    driver.backend.faults.add(f"turn {turn}")
    driver.left = driver.left[turn:] + driver.left[:turn]


@MUTATIONS.override("exceeds_grant", breaks(SwitchDriver, 8))
def accept_contribution_outside_grant(driver, _, contribution):
    """Accept contributions outside their grant."""
    return False


@MUTATIONS.override("exceeds_grant", breaks(SwitchDriver, 8))
def accept_contribution_that_is_too_long(driver, original, contribution):
    """Accept contributions with a flow that no message can carry."""
    flows = tuple(flow for flow in contribution.flows if not encoding_problem(flow))
    return original(evolve(contribution, flows=flows))


@MUTATIONS.override("converge", breaks(SwitchDriver, 8))
def fail_all_keys_for_one_contribution(driver, original, update):
    """Fail the whole update for one contribution outside its grant."""
    observed = driver.observe(update)
    for value in update.put.values():
        if isinstance(value, Wiring) and any(map(driver.exceeds_grant, value.contributions)):
            error = driver.refusals(update, observed, set())
            return Outcome(failed=dict.fromkeys(update, next(iter(error.values()))))
    return original(update)


@MUTATIONS.override("devices", breaks_raise(SwitchDriver, "devices", BackendUnavailable))
def devices_are_empty_during_outage(driver, original):
    """Return no devices while the backend is unreachable."""
    return original() if driver.backend.online else {}


@MUTATIONS.override("host_facts", breaks_raise(SwitchDriver, "host_facts", BackendUnavailable))
def default_host_facts_during_outage(driver, original):
    """Return default host facts while the backend is unreachable."""
    return original() if driver.backend.online else SwitchFacts()


@MUTATIONS.override("forwards", breaks(SwitchDriver, 13))
def forward_nothing_during_outage(driver, original):
    """Say that nothing can pass a switch that is unreachable."""
    return driver.backend.online and original()


@MUTATIONS.override("host_facts", breaks_raise(SwitchDriver, "host_facts", ConfigError))
def ignore_contradicting_configuration(driver, _):
    """Accept a configuration that contradicts the host."""
    return driver.known or (driver.backend.check_online() or SwitchFacts())


@MUTATIONS.override("grant", breaks_raise(SwitchDriver, "grant", NotSupported))
def grant_unsupported_marks(driver, original, request):
    """Grant marks that the switch does not have."""
    return original(evolve(request, marks=()))


@MUTATIONS.override("make_grant", breaks_raise(SwitchDriver, "grant", ConfigError))
def grant_last_table_again(driver, original, request):
    """Grant the last table again when none is left."""
    while len(driver.left) < len(request.tables):
        driver.left.append(100)
    return original(request)


@MUTATIONS.override("wait", breaks(SwitchDriver, 4))
def require_network_of_dead_port(driver, original, key, value, *states):
    """Let a DEAD port wait for its network."""
    final, _ = states
    if isinstance(value, Wiring) and NetworkKey(value.network) not in final:
        return "no network"
    return original(key, value, *states)


@MUTATIONS.override("host_facts")
def report_no_endpoints(driver, original):
    """Report no tunnel endpoints."""
    return evolve(original(), endpoints=frozenset())


@MUTATIONS.override("grant", breaks(SwitchDriver, 8))
def write_on_grant(driver, original, request):
    """Allocate a VLAN in the switch while granting."""
    driver.backend.vlans.setdefault(request.owner, 4000)
    return original(request)


@MUTATIONS.override("converge")
def refuse_second_driver_object(driver, original, update):
    """Refuse all keys while another driver object is in use."""
    if driver.backend.locked_by not in {None, driver}:
        return Outcome(failed=dict.fromkeys(update, Conflict("another driver object is in use")))
    driver.backend.locked_by = driver if update.put else None
    return original(update)


@refuse_second_driver_object.also("__init__")
def _(driver, original, *arguments):
    original(*arguments)
    if not hasattr(driver.backend, "locked_by"):
        driver.backend.locked_by = None
