"""Mutations of the fake firewall: updates, the laws of host drivers and of reconcilers."""

import time

from attrs import evolve

from netfw.drivers.firewall import FilteredPort, FirewallDriver, Member, Rules
from netfw.drivers.host_driver import HostDriver
from netfw.drivers.reconciler import Reconciler
from netfw.drivers.support.firewall_validation import validation_error
from netfw.errors import BackendUnavailable, NetfwError
from netfw.plan import Outcome
from netfw.testing.conformance.firewall.packets import Packet
from tests.conformance.common.mutations import Mutations, breaks, breaks_raise
from tests.conformance.firewall.fake_firewall import operation, reverse, staged

MUTATIONS = Mutations()


def pause_after_stage(driver, original, stage):
    """Leave time for packets between two stages."""
    original(stage)
    time.sleep(0.002)


@MUTATIONS.override("stages", breaks(FirewallDriver, 3))
def freeze_members(driver, original, put, gone, observed):
    """Ignore member changes once there are rules."""
    if not put and gone == observed.keys():
        return original(put, gone, observed)
    known = any(isinstance(value, Rules) and value.rules for value in observed.values())
    late = {k: v for k, v in put.items() if not (known and isinstance(k, Member))}
    return original(late, {k for k in gone if not isinstance(k, Member)}, observed)


@MUTATIONS.override("decide", breaks(FirewallDriver, 4))
def never_revoke_connections(cls, original, backend, delivery):
    """Let every tracked connection pass."""
    sent = delivery.sent
    if isinstance(sent, Packet) and not cls.is_invalid(backend, sent, (), None):
        here = cls.connection(delivery, sent)
        if here in backend.connections and sent.protocol != 132 and sent.flags != 2:
            return True
    return original(backend, delivery)


@never_revoke_connections.also("passes")
def _(cls, original, policy, way, opened):
    return opened is not None or original(policy, way, opened)


@MUTATIONS.override("execute", breaks(FirewallDriver, 4))
def flush_connections_on_update(driver, original, stage):
    """End all connections with each update."""
    original(stage)
    driver.backend.connections.clear()


@MUTATIONS.override("__init__", breaks(FirewallDriver, 4))
def flush_connections_on_start(driver, original, backend):
    """End all connections when a driver starts."""
    original(backend)
    backend.connections.clear()


@MUTATIONS.override("stages", breaks(FirewallDriver, 5))
def remove_before_replacing(driver, _, put, gone, observed):
    """Remove a replaced value in a stage of its own."""
    leaving = [operation(key, None) for key in sorted({*gone, *(put.keys() & observed)}, key=str)]
    return staged(leaving, [operation(key, value) for key, value in put.items()])


remove_before_replacing.also("execute")(pause_after_stage)


@MUTATIONS.override("stages", breaks(FirewallDriver, 5))
def trust_ports_during_update(driver, original, put, gone, observed):
    """Trust changed ports until the update is complete."""
    ports = {
        k: evolve(v, trusted=True)
        for k, v in put.items()
        if isinstance(v, FilteredPort) and k in observed
    }
    first = [operation(key, value) for key, value in ports.items()]
    return (*staged(first), *original(put, gone, observed))


trust_ports_during_update.also("execute")(pause_after_stage)


@MUTATIONS.override("converge", breaks(FirewallDriver, 5))
def remove_refused_keys(driver, original, update):
    """Remove the keys that fail."""
    outcome = original(update)
    for key in outcome.failed:
        driver.backend.policy.pop(key, None)
    return outcome


@MUTATIONS.override("execute", breaks(FirewallDriver, 6))
def multiply_members(driver, original, stage):
    """Store each member once for each other member."""
    original(stage)
    members = [m for m in driver.backend.policy if isinstance(m, Member)]
    count = len(members)
    driver.backend.marks = {f"{m} of {count}" for m in members}


@MUTATIONS.override("decide", breaks(FirewallDriver, 7))
def share_connections_across_networks(cls, original, backend, delivery):
    """Take a connection of one network for one of all."""
    sent = delivery.sent
    if isinstance(sent, Packet):
        ways = {cls.connection(delivery, each)[1:] for each in (sent, reverse(sent))}
        here = delivery.sender.plug_point.network
        if any(c[1:] in ways and c[0] != here for c in backend.connections):
            return True
    return original(backend, delivery)


@MUTATIONS.override("passes", breaks(FirewallDriver, 8))
def filter_trusted_ports(cls, original, policy, way, opened):
    """Drop DHCP replies and router advertisements of trusted ports."""
    sent = way.sent
    port = policy.get(way.sender.key)
    known = isinstance(port, FilteredPort) and port.trusted and isinstance(sent, Packet)
    if known and (sent.source_port == 67 or sent.icmp[0] == 134):
        return False
    return original(policy, way, opened)


@MUTATIONS.override("execute", breaks(FirewallDriver, 8))
def keep_trust_after_change(driver, original, stage):
    """Trust a port that was trusted before."""
    for each in stage.operations:
        key, value = each.payload
        former = driver.backend.policy.get(key)
        if isinstance(value, FilteredPort) and isinstance(former, FilteredPort):
            driver.backend.marks.discard(str(key))
            if former.trusted or f"trusted {key}" in driver.backend.marks:
                driver.backend.marks.add(f"trusted {key}")
        elif value is None:
            driver.backend.marks.discard(f"trusted {key}")
    original(stage)


@keep_trust_after_change.also("decide")
def _(cls, original, backend, delivery):
    ends = delivery.sender.key, delivery.receiver.key
    if any(f"trusted {key}" in backend.marks for key in ends):
        return True
    return original(backend, delivery)


@MUTATIONS.override("refusals", breaks(FirewallDriver, 9))
def accept_invalid_values(driver, _, update):
    """Accept invalid values and ignore them."""
    return {}


@accept_invalid_values.also("in_force")
def _(cls, _, policy):
    return {k: v for k, v in policy.items() if validation_error(k, v) is None}


@MUTATIONS.override("converge", breaks(FirewallDriver, 9))
def fail_all_keys_with_one_error(driver, original, update):
    """Fail all keys with the error of one."""
    refused = driver.refusals(update)
    if refused:
        return Outcome(failed=dict.fromkeys(update, next(iter(refused.values()))))
    return original(update)


@MUTATIONS.override("converge", breaks(HostDriver, 1))
def rewrite_on_repeat(driver, original, update):
    """Rewrite what is as desired already."""
    outcome = original(update)
    driver.backend.marks = {f"made {len(driver.backend.marks)}", *driver.backend.marks}
    if update.complete and not update.put:
        driver.backend.marks = set()
    return outcome


@MUTATIONS.override("converge", breaks(HostDriver, 2))
def fail_on_absent_drop(driver, original, update):
    """Report an error for a dropped key that is absent."""
    absent = update.drop - driver.backend.policy.keys()
    outcome = original(update.without(absent))
    return evolve(outcome, failed={**outcome.failed, **dict.fromkeys(absent, NetfwError("?"))})


@MUTATIONS.override("removed_keys", breaks(HostDriver, 3))
def ignore_complete(driver, original, update, observed):
    """Ignore ``complete`` unless the update is empty."""
    return original(evolve(update, complete=update.complete and not update.put), observed)


@MUTATIONS.override("removed_keys", breaks(HostDriver, 3))
def remove_kept_keys(driver, original, update, observed):
    """Remove the keys in ``keep`` with a complete update."""
    return original(evolve(update, keep=frozenset()), observed)


@MUTATIONS.override("converge", breaks(HostDriver, 4))
def fail_all_keys_for_one(driver, original, update):
    """Fail the whole update if one key is refused."""
    return fail_all_keys_with_one_error.overrides["converge"](driver, original, update)


@MUTATIONS.override("converge", breaks(HostDriver, 5))
def remove_foreign_on_empty_complete_update(driver, original, update):
    """Remove foreign state with an empty complete update."""
    if update.complete and not update.put:
        driver.backend.foreign = False
    return original(update)


@MUTATIONS.override("execute", breaks(HostDriver, 6), breaks(Reconciler, 3))
def know_only_own_keys(driver, original, stage):
    """Remove only what this driver object wrote."""
    original(stage)
    for each in stage.operations:
        driver.mine.add(each.payload[0])


@know_only_own_keys.also("removed_keys")
def _(driver, original, update, observed):
    gone = original(update, observed)
    return gone if not update.put else gone & driver.mine


@know_only_own_keys.also("__init__")
def _(driver, original, backend):
    original(backend)
    driver.mine = set()


@MUTATIONS.override("converge", breaks(HostDriver, 7))
def report_desired_as_present(driver, original, update):
    """Report every key that was put as present."""
    outcome = original(update)
    if update.complete:
        driver.requested &= update.keep
    driver.requested = (driver.requested | update.put.keys()) - update.drop
    return outcome


@report_desired_as_present.also("present")
def _(driver, _):
    driver.backend.check_online()
    return frozenset(driver.requested)


@report_desired_as_present.also("__init__")
def _(driver, original, backend):
    original(backend)
    driver.requested = set()


@MUTATIONS.override("converge", breaks_raise(HostDriver, "converge", BackendUnavailable))
def report_success_during_outage(driver, original, update):
    """Report success while the backend is unreachable."""
    return original(update) if driver.backend.online else Outcome(done=frozenset(update))


@MUTATIONS.override("present", breaks_raise(HostDriver, "present", BackendUnavailable))
def present_is_empty_during_outage(driver, original):
    """Return no keys while the backend is unreachable."""
    return original() if driver.backend.online else frozenset()


@MUTATIONS.override("plan", breaks(Reconciler, 1))
def write_while_planning(driver, original, update, observed):
    """Change the backend while planning."""
    plan = original(update, observed)
    driver.backend.marks = {f"thought of {len(update.put)}"} if update.put else set()
    return plan


@MUTATIONS.override("plan", breaks(Reconciler, 2))
def plan_finished_work_again(driver, original, update, observed):
    """Plan operations for what is as desired."""
    return original(update, {k: v for k, v in observed.items() if k not in update.put})


@MUTATIONS.override("observe", breaks(Reconciler, 4))
def observe_without_put_keys(driver, original, scope):
    """Leave the put keys out of a scoped observation."""
    found = original(scope)
    kept = {} if scope is None else scope.put
    return {k: v for k, v in found.items() if k not in kept}


@MUTATIONS.override("apply", breaks(Reconciler, 5))
def skip_checkpoints(driver, original, plan, checkpoint):
    """Skip all checkpoints."""
    original(plan, lambda stage: None)


@MUTATIONS.override("observe", breaks(Reconciler, 6))
def observe_own_writes_only(driver, original, scope):
    """Observe what was written, instead of what the backend has."""
    original(scope)
    return dict(driver.written)


@observe_own_writes_only.also("execute")
def _(driver, original, stage):
    original(stage)
    driver.written = dict(driver.backend.policy)


@observe_own_writes_only.also("__init__")
def _(driver, original, backend):
    original(backend)
    driver.written = dict(backend.policy)


@MUTATIONS.override("observe", breaks_raise(Reconciler, "observe", BackendUnavailable))
def observe_nothing_during_outage(driver, original, scope):
    """Observe an empty backend in an outage."""
    return original(scope) if driver.backend.online else {}


@MUTATIONS.override("apply", breaks_raise(Reconciler, "apply", BackendUnavailable))
def apply_nothing_during_outage(driver, original, plan, checkpoint):
    """Skip the plan silently in an outage."""
    if driver.backend.online:
        original(plan, checkpoint)
