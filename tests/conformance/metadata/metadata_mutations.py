"""Mutations of the fake metadata driver and of its proxy: each breaks one promise."""

import threading

from attrs import evolve

from netfw.drivers.metadata import IDENTIFYING, MetadataDriver
from netfw.errors import BackendBroken, Conflict, NotFound
from netfw.plan import Outcome
from tests.conformance.common.mutations import Mutation, Mutations, breaks
from tests.conformance.metadata.fake_metadata import (
    FakeProxy,
    plain,
)

MUTATIONS = Mutations()


def override_proxy(method, *promises):
    """Register the decorated function as a mutation of *method* of the proxy."""

    def register(function):
        name = function.__name__
        proxy = Mutation(name, frozenset(), {method: function}).apply(FakeProxy)
        return MUTATIONS.replace(name, *promises, PROXY=proxy())

    return register


@override_proxy("clean", breaks(MetadataDriver, 1))
def pass_identity_headers_of_client(proxy, _, headers):
    """Pass identifying headers of the client on."""
    return headers


@override_proxy("clean", breaks(MetadataDriver, 1))
def match_headers_by_one_spelling(proxy, _, headers):
    """Remove identifying headers in one spelling only."""
    return [each for each in headers if each[0].lower() not in {*IDENTIFYING, "connection"}]


@override_proxy("clean", breaks(MetadataDriver, 1))
def pass_connection_header(proxy, original, headers):
    """Pass ``Connection`` on, so that a client can have headers removed."""
    return [*original(headers), *(h for h in headers if plain(h[0]) == "connection")]


@override_proxy("length", breaks(MetadataDriver, 1))
def ignore_transfer_encoding(proxy, original, headers):
    """Pass ``Transfer-Encoding`` on without reading it."""
    return original([h for h in headers if plain(h[0]) != "transfer-encoding"])


@override_proxy("own", breaks(MetadataDriver, 1))
def omit_network_header(proxy, original, key, source):
    """Send the address without the id of the network or router."""
    return original(key, source)[:1]


@override_proxy("identity", breaks(MetadataDriver, 1))
def send_router_as_network(proxy, original, key):
    """Send the id of a router as that of a network."""
    return "X-Neutron-Network-ID", original(key)[1]


@override_proxy("may_have_body", breaks(MetadataDriver, 7))
def forward_body_of_get(proxy, _, line):
    """Forward the body of a request whose method has none."""
    return True


class Ipv4Proxy(FakeProxy):
    LINK_LOCAL = False


MUTATIONS.replace("ignore_ipv6_link_local", breaks(MetadataDriver, 1), PROXY=Ipv4Proxy())


@override_proxy("body", breaks(MetadataDriver, 1))
def replace_request_body(proxy, _, body):
    """Replace the body of a request."""
    return b"-" * len(body)


@MUTATIONS.override("converge", breaks(MetadataDriver, 2))
def restart_on_every_update(driver, original, update):
    """Start a proxy with each update, whether it runs or not."""
    outcome = original(update)
    for key in outcome.done & update.put.keys():
        driver.start(key, update.put[key])
    return outcome


@MUTATIONS.override("supervise", breaks(MetadataDriver, 2))
def restart_on_new_driver(driver, original, keys, update):
    """Restart the proxies that another driver started."""
    for key in keys - driver.supervised:
        driver.start(key, update.put[key])
    original(keys, update)


@MUTATIONS.override("start", breaks(MetadataDriver, 3))
def leave_dead_proxy(driver, original, key, proxy):
    """Report a dead proxy, and leave it dead."""
    if key not in driver.supervised:
        original(key, proxy)


@MUTATIONS.override("watch", breaks(MetadataDriver, 3))
def emit_no_events(driver, _, sink):
    """Restart a dead proxy without an event."""


@MUTATIONS.override("execute", breaks(MetadataDriver, 3))
def watch_own_children_only(driver, original, operation):
    """Watch only the proxies that this driver started."""
    original(operation)
    driver.children.add(operation.payload[1])


@watch_own_children_only.also("supervise")
def _(driver, original, keys, update):
    original(keys & driver.children, update)


@watch_own_children_only.also("__init__")
def _(driver, original, backend):
    original(backend)
    driver.children = set()


@MUTATIONS.override("remove", breaks(MetadataDriver, 4))
def leave_files(driver, original, key):
    """Leave the files of a removed proxy."""
    original(key)
    driver.backend.files.add(key)


@leave_files.also("removed_keys")
def _(driver, original, update, observed):
    return original(update, evolve(observed, files=frozenset()))


@MUTATIONS.override("removed_keys", breaks(MetadataDriver, 4))
def leave_router_proxies(driver, original, update, observed):
    """Remove only proxies of networks as garbage."""
    removed = original(update, observed)
    return [key for key in removed if key in update.drop or hasattr(key, "network")]


@MUTATIONS.override("refusals", breaks(MetadataDriver, 5))
def ignore_missing_namespace(driver, original, update, observed):
    """Run a proxy in the host's namespace if its own is missing."""
    refused = original(update, observed)
    return {key: error for key, error in refused.items() if not isinstance(error, NotFound)}


@MUTATIONS.override("refusals", breaks(MetadataDriver, 5))
def report_missing_namespace_as_broken_backend(driver, original, update, observed):
    """Report a missing namespace as ``BackendBroken``."""
    refused = original(update, observed)
    return {
        key: BackendBroken("no namespace") if isinstance(error, NotFound) else error
        for key, error in refused.items()
    }


@MUTATIONS.override("start", breaks(MetadataDriver, 6))
def run_as_root(driver, original, key, proxy):
    """Start proxies as root."""
    original(key, proxy)
    process = driver.backend.processes[key]
    driver.backend.processes[key] = evolve(process, root=True)


@MUTATIONS.override("refusals")
def share_listen_address(driver, original, update, observed):
    """Let two proxies listen at one address."""
    refused = original(update, observed)
    foreign = [each.netns for each in observed.foreign]
    return {
        key: error
        for key, error in refused.items()
        if not isinstance(error, Conflict) or update.put[key].netns in foreign
    }


@MUTATIONS.override("refusals")
def refuse_address_handover(driver, original, update, observed):
    """Refuse an address that another proxy has before the update."""
    refused = original(update, observed)
    for key, proxy in update.put.items():
        others = {each.proxy.netns for k, each in observed.processes.items() if k != key}
        if proxy.netns in others:
            refused[key] = Conflict("the address is in use")
    return refused


@MUTATIONS.override("converge")
def fail_in_other_threads(driver, original, update):
    """Fail all keys in any thread but the first."""
    driver.thread = driver.thread or threading.get_ident()
    if driver.thread != threading.get_ident():
        return Outcome(failed=dict.fromkeys(update, BackendBroken("another thread")))
    return original(update)


@fail_in_other_threads.also("__init__")
def _(driver, original, backend):
    original(backend)
    driver.thread = None
