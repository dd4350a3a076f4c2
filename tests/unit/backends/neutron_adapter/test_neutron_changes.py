"""How a driver of Neutron sees changes, before and after the commit, and how it fails."""

from __future__ import annotations

import pytest
from attrs import evolve

from netfw.drivers.server.change import Change
from netfw.drivers.server.mechanism import MechanismCapability
from netfw.errors import (
    BackendBroken,
    BackendUnavailable,
    Conflict,
    DriverCrashed,
    Forbidden,
    NetfwError,
    NotFound,
    NotSupported,
    RequestError,
)
from netfw.model.binding import Binding
from netfw.model.router import Router
from netfw.model.values.ids import RouterId
from netfw.testing.conformance.server import mechanism_samples as samples
from tests.unit.backends.neutron_adapter.conftest import HEAD, Load

pytestmark = [pytest.mark.spec("ML2-12"), pytest.mark.slow]

VLAN = samples.SEGMENTS[1]
RECORDER = """
    def _record(self, method, context):
        before = context.original and context.original["name"]
        self.calls.append((method, before, context.current["name"]))

for phase in ("precommit", "postcommit"):
    for kind in ("network", "subnet", "port"):
        for event in ("create", "update", "delete"):
            name = f"{event}_{kind}_{phase}"
            setattr(Acme, name, lambda self, context, name=name: self._record(name, context))
"""
IMPORTS = """
from neutron_lib import context as n_context
from neutron_lib.db import api as db_api
"""
UPDATE = "\n    def update_port_{phase}(self, context):\n        {body}\n"


def moved() -> Change:
    """Return the change of a port that moves between two hosts, on a network with one segment."""
    first, second = (
        evolve(samples.PORT, binding=Binding(host=host, vif_type="other")) for host in "ab"
    )
    return evolve(samples.change(first, second), segments=(VLAN,))


@pytest.mark.parametrize(("method", "phase"), [("validate", "pre"), ("deliver", "post")])
@pytest.mark.parametrize("resource", [samples.NETWORK, samples.SUBNET, samples.PORT])
def test_each_change_calls_the_method_of_its_kind_and_phase(
    load: Load, resource: samples.RecordedChange, method: str, phase: str
) -> None:
    driver = load(RECORDER)
    first, second = evolve(resource, name="one"), evolve(resource, name="two")
    for before, after in ((None, first), (first, second), (second, None)):
        getattr(driver, method)(samples.change(before, after))
    kind = type(resource).__name__.lower()
    assert driver._driver.calls == [
        (f"create_{kind}_{phase}commit", None, "one"),
        (f"update_{kind}_{phase}commit", "one", "two"),
        (f"delete_{kind}_{phase}commit", None, "two"),
    ]
    assert MechanismCapability.DELIVERS in driver.describe().capabilities


def test_a_port_that_moves_shows_both_segments_and_hosts(load: Load) -> None:
    driver = load(
        UPDATE.format(
            phase="postcommit",
            body="""was, now = context.original_bottom_bound_segment, context.top_bound_segment
        ids = [each and each["segmentation_id"] for each in (was, now)]
        self.calls.append((context.original_host, context.host, *ids, context.status))""",
        )
    )
    driver.deliver(moved())
    assert driver._driver.calls == [("a", "b", 101, None, "DOWN"), ("b", "b", None, 101, "DOWN")]


def test_a_network_shows_its_segments(load: Load) -> None:
    driver = load(
        "\n    def create_network_precommit(self, context):\n"
        "        self.calls += [each['network_type'] for each in context.network_segments]\n"
    )
    driver.validate(samples.change(None, samples.NETWORK))
    assert driver._driver.calls == ["vxlan", "vlan"]


def test_changes_of_other_resources_are_not_passed_on(load: Load) -> None:
    driver = load(RECORDER)
    driver.validate(Change(before=None, after=Router(id=RouterId(samples.PORT.id))))
    assert driver._driver.calls == []


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        ("exceptions.InvalidInput(error_message='no')", RequestError),
        ("exceptions.PortNotFound(port_id=1)", NotFound),
        ("exceptions.Conflict()", Conflict),
        ("exceptions.MacAddressInUse(net_id=1, mac=2)", Conflict),
        ("exceptions.AdminRequired(reason='x')", Forbidden),
        ("exceptions.ServiceUnavailable()", BackendUnavailable),
        ("RuntimeError('surprise')", DriverCrashed),
    ],
)
def test_an_exception_before_the_commit_is_the_refusal_of_the_request(
    load: Load, raised: str, error: type[NetfwError]
) -> None:
    body = f"from neutron_lib import exceptions; raise {raised}"
    driver = load(UPDATE.format(phase="precommit", body=body))
    with pytest.raises(error, match="mechanism driver 'acme': ") as found:
        driver.validate(moved())
    assert type(found.value) is error


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        ("ConnectionRefusedError('down')", BackendUnavailable),
        ("exceptions.NeutronException()", BackendUnavailable),
        ("Exception('no answer')", BackendUnavailable),
        ("exceptions.InvalidInput(error_message='no')", RequestError),
        ("KeyError('x')", BackendBroken),
    ],
)
def test_an_outage_after_the_commit_is_retried_and_a_refusal_or_defect_is_not(
    load: Load, raised: str, error: type[NetfwError]
) -> None:
    body = f"from neutron_lib import exceptions; raise {raised}"
    driver = load(UPDATE.format(phase="postcommit", body=body))
    with pytest.raises(error, match="mechanism driver 'acme': ") as found:
        driver.deliver(moved())
    assert found.value.retryable is (error is BackendUnavailable)


@pytest.mark.parametrize(
    ("body", "missing"),
    [
        ("context.host_agents('x')", "host_agents outside of bind_port"),
        ("context.set_binding(1, 'x', {})", "set_binding outside of bind_port"),
        ("context._plugin.get_subnet(context.plugin_context, 1)", "get_subnet of Neutron's core"),
        (
            "db_api.CONTEXT_WRITER.using(context._plugin_context).__enter__()",
            "a transaction of Neutron's database",
        ),
        (
            "db_api.CONTEXT_READER.using(n_context.get_admin_context()).__enter__()",
            "Neutron's database",
        ),
    ],
)
def test_what_netfw_does_not_have_is_refused_by_name_at_the_call(
    load: Load, body: str, missing: str
) -> None:
    imports = (
        "from neutron_lib import context as n_context; from neutron_lib.db import api as db_api"
    )
    head = HEAD.replace("from", f"{imports}\nfrom", 1)
    driver = load(UPDATE.format(phase="postcommit", body=body), head=head)
    with pytest.raises(NotSupported, match="mechanism driver 'acme' uses ") as found:
        driver.deliver(moved())
    assert missing in str(found.value)
    assert "which netfw does not have" in str(found.value)
