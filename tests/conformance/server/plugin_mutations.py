"""Mutations of plugins: each breaks one promise of its contract."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

from attrs import evolve

from netfw.drivers.base import Driver
from netfw.drivers.server.core_plugin import CorePlugin
from netfw.drivers.server.resource_plugin import ResourcePlugin
from netfw.drivers.server.service_plugin import ServicePlugin
from netfw.drivers.values.reports import StatusReport
from netfw.errors import Conflict, NotFound, NotSupported, Outdated, RequestError
from netfw.testing.conformance.server.resource_plugin import ADMIN
from tests.conformance.common.mutations import Mutations, breaks, breaks_raise

RESOURCE, CORE, SERVICE = Mutations(), Mutations(), Mutations()
VALIDATION = Mutations()
"""Mutations of ``validate`` that the watch around the calls sees."""


@RESOURCE.override(
    "create", breaks(ResourcePlugin, 1), breaks_raise(ResourcePlugin, "create", RequestError)
)
def create_one_by_one(plugin, original, requester, name, bodies):
    """Create the resources of a list in a transaction each."""
    return tuple(made for body in bodies for made in original(requester, name, [body]))


@RESOURCE.override("create", breaks(ResourcePlugin, 1))
def create_in_reverse_order(plugin, original, requester, name, bodies):
    """Return the created resources in another order."""
    return original(requester, name, bodies)[::-1]


@RESOURCE.override("create", breaks(ResourcePlugin, 1))
def create_twice(plugin, original, requester, name, bodies):
    """Create each resource a second time, as a retry after a commit does."""
    original(requester, name, bodies)
    return original(requester, name, bodies)


@RESOURCE.override("create", breaks(ResourcePlugin, 1))
def ignore_description(plugin, original, requester, name, bodies):
    """Ignore an attribute of the request."""
    return original(requester, name, [{**body, "description": ""} for body in bodies])


@RESOURCE.override("create", breaks(ResourcePlugin, 1))
def change_the_request(plugin, original, requester, name, bodies):
    """Change the bodies of the caller before they are stored."""
    for body in bodies:
        body["description"] = ""
    return original(requester, name, bodies)


@RESOURCE.override("update", breaks(ResourcePlugin, 2))
def update_without_revision(plugin, original, requester, name, id, *change):
    """Return the revision from before the change."""
    before = plugin.show(requester, name, id)["revision_number"]
    return {**original(requester, name, id, *change), "revision_number": before}


@RESOURCE.override(
    "update", breaks(ResourcePlugin, 3), breaks_raise(ResourcePlugin, "update", Outdated)
)
def update_any_revision(plugin, original, requester, name, id, *change):
    """Ignore the revision of an update."""
    return original(requester, name, id, change[0])


@RESOURCE.override(
    "delete", breaks(ResourcePlugin, 3), breaks_raise(ResourcePlugin, "delete", Outdated)
)
def delete_any_revision(plugin, original, requester, name, id, *revision):
    """Ignore the revision of a deletion."""
    return original(requester, name, id)


@RESOURCE.override(
    "show", breaks(ResourcePlugin, 4), breaks_raise(ResourcePlugin, "show", NotFound)
)
def show_to_strangers(plugin, original, requester, name, id):
    """Show the resources of other projects."""
    return original(requester.elevated(), name, id)


@RESOURCE.override("find", breaks(ResourcePlugin, 4))
def list_for_strangers(plugin, original, requester, name, query):
    """List the resources of other projects."""
    return original(requester.elevated(), name, query)


@RESOURCE.override(
    "update", breaks(ResourcePlugin, 4), breaks_raise(ResourcePlugin, "update", NotFound)
)
def update_for_strangers(plugin, original, requester, name, id, *change):
    """Change the resources of other projects."""
    return original(requester.elevated(), name, id, *change)


@RESOURCE.override(
    "delete", breaks(ResourcePlugin, 4), breaks_raise(ResourcePlugin, "delete", NotFound)
)
def ignore_missing_on_delete(plugin, original, requester, name, id, *revision):
    """Delete what does not exist."""
    with suppress(NotFound):
        original(requester, name, id, *revision)


@RESOURCE.override("update", breaks(ResourcePlugin, 5))
def fail_in_other_threads(plugin, original, requester, name, id, *change):
    """Report a conflict of transactions instead of another attempt."""
    if threading.current_thread() is not threading.main_thread():
        raise Conflict("the row is locked")
    return original(requester, name, id, *change)


@RESOURCE.override("update", breaks_raise(ResourcePlugin, "update", Conflict))
def ignore_contradictions(plugin, original, requester, name, id, *change):
    """Report a change as done that contradicts another resource."""
    try:
        return original(requester, name, id, *change)
    except Outdated:
        raise
    except Conflict:
        return plugin.show(requester, name, id)


@RESOURCE.override("delete", breaks_raise(ResourcePlugin, "delete", Conflict))
def ignore_use(plugin, original, requester, name, id, *revision):
    """Report a resource in use as deleted."""
    try:
        original(requester, name, id, *revision)
    except Outdated:
        raise
    except Conflict:
        return


@RESOURCE.override("member_action", breaks_raise(ResourcePlugin, "member_action", NotSupported))
def accept_any_action(plugin, original, requester, name, id, *action):
    """Accept an action that does not exist."""
    try:
        return original(requester, name, id, *action)
    except NotSupported:
        return {}


@RESOURCE.override("member_action", breaks_raise(ResourcePlugin, "member_action", NotFound))
def act_on_missing_resources(plugin, original, requester, name, id, *action):
    """Report an action on a resource that does not exist as done."""
    try:
        plugin.show(requester, name, id)
    except NotFound:
        return {}
    return original(requester, name, id, *action)


@RESOURCE.override("member_action", breaks_raise(ResourcePlugin, "member_action", RequestError))
def report_impossible_actions_as_done(plugin, original, requester, name, id, *action):
    """Report an impossible action as done."""
    plugin.show(requester, name, id)
    try:
        return original(requester, name, id, *action)
    except NotSupported:
        raise
    except RequestError:
        return {}


@RESOURCE.override("resource_names")
def forget_resources(plugin, original):
    """Store resources that are not named, once one was created."""
    names = original()
    used = any(handler.__dict__.get("used") for handler in plugin._handlers.values())
    return frozenset() if used else names


@forget_resources.also("create")
def _(plugin, original, requester, name, bodies):
    plugin._handlers[name].used = True
    return original(requester, name, bodies)


@CORE.override("resource_names", breaks(CorePlugin, 1))
def store_no_segments(plugin, original):
    """Leave the segments to another plugin."""
    return original() - {"segment"}


@CORE.override("__init__", breaks(CorePlugin, 2))
def skip_mechanism_drivers(plugin, original, *arguments):
    """Commit without the validation of mechanism drivers."""
    original(*arguments)
    hooks = plugin.context.precommit_hooks
    hooks[:] = [hook for hook in hooks if "Mechanisms" not in getattr(hook, "__qualname__", "")]


@CORE.override("create", breaks(CorePlugin, 3))
def bind_later(plugin, original, requester, name, bodies):
    """Return a port before it is bound."""
    host = "binding:host_id"
    return original(requester, name, [{k: v for k, v in b.items() if k != host} for b in bodies])


@CORE.override("handle_reports", breaks(CorePlugin, 4))
def accept_late_reports(plugin, original, reports):
    """Take every report as one of the present revision."""

    def present(report):
        if not isinstance(report, StatusReport):
            return report
        shown = plugin.show(ADMIN, "port", str(report.ref.id))
        return evolve(report, revision=shown["revision_number"])

    return original([present(report) for report in reports])


@CORE.override("handle_request", breaks(CorePlugin, 5))
def answer_for_another_host(plugin, original, request):
    """Make another port at each request."""
    plugin.__dict__["hosts"] = plugin.__dict__.get("hosts", 0) + 1
    if hasattr(request, "host"):
        request = evolve(request, host=f"{request.host}-{plugin.hosts}")
    return original(request)


@CORE.override(
    "handle_request", breaks_raise(CorePlugin, "handle_request", NotSupported, RequestError)
)
def answer_everything(plugin, original, request):
    """Answer unknown and impossible requests."""
    try:
        return original(request)
    except RequestError:
        return None


@SERVICE.override("resource_names", breaks(ServicePlugin, 1))
def store_ports_too(plugin, original):
    """Store resources of the core plugin."""
    return original() | {"port"}


@SERVICE.override("validate", breaks(ServicePlugin, 2))
def read_a_file_to_validate(plugin, original, change):
    """Read a file in the transaction."""
    Path("/etc/hostname").exists()
    with suppress(OSError), open("/etc/hosts"):
        original(change)


@SERVICE.override("validate", breaks(ServicePlugin, 2))
def refuse_repeated_changes(plugin, original, change):
    """Refuse a change that was validated before, as a retry does."""
    seen = plugin.__dict__.setdefault("seen", set())
    original(change)
    if change.ref in seen:
        raise Conflict("the change was validated before")
    seen.add(change.ref)


@SERVICE.override(
    "validate", breaks(ServicePlugin, 2), breaks_raise(ServicePlugin, "validate", RequestError)
)
def accept_all(plugin, original, change):
    """Accept every change."""


@SERVICE.override("member_action", breaks(ServicePlugin, 3))
def act_in_two_changes(plugin, original, requester, name, id, *action):
    """Execute an action as two changes."""
    result = original(requester, name, id, *action)
    plugin.update(requester, name, id, {"description": f"after {action[0]}"})
    return result


@SERVICE.override("handle_request", breaks(ServicePlugin, 4))
def make_another_at_each_request(plugin, original, request):
    """Make another resource at each request."""
    answer = original(request)
    plugin.create(ADMIN, "widget", [{"name": "one more", "project_id": "owner"}])
    return answer


@SERVICE.override(
    "handle_request", breaks_raise(ServicePlugin, "handle_request", NotSupported, RequestError)
)
def answer_all_requests(plugin, original, request):
    """Answer unknown and impossible requests."""
    try:
        return original(request)
    except RequestError:
        return None


@VALIDATION.override("validate", breaks(Driver, 3))
def leave_a_thread_in_each_validation(plugin, original, change):
    """Start a thread that outlives the call."""
    threading.Thread(target=threading.Event().wait, args=(5,), daemon=True).start()
    original(change)
