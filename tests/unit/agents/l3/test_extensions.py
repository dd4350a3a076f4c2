"""L3 extensions, as the agent calls them."""

import pytest
from attrs import evolve

from netfw.agents.common.replica import Replica
from netfw.drivers.base import DriverInfo
from netfw.drivers.l3_extension import L3Extension
from netfw.drivers.support.router_directory import RouterDirectory
from netfw.drivers.values.events import KeysChanged
from netfw.drivers.values.keys import RouterKey
from netfw.drivers.values.pipeline_grant import GrantRequest
from netfw.drivers.values.router_contribution import (
    RouterContribution,
    RouterRule,
    RuleChain,
    RuleTable,
)
from netfw.errors import ConfigError, Conflict, NotFound
from netfw.model.resource import ref
from tests.unit.agents.l3.environment import EDGE, INNER, environments, floating_ip

ONE = floating_ip(20, EDGE)


class Counting(L3Extension):
    """Contributes one rule for each related resource; fails for routers in ``failing``."""

    VERSION = 2

    def __init__(self, owner="count"):
        self.owner, self.failing, self.calls, self.sinks = owner, set(), [], []
        self.word = "ACCEPT"

    @classmethod
    def from_conf(cls, options, host):
        return cls()

    def describe(self):
        return DriverInfo(self.owner)

    def grant_request(self):
        return GrantRequest(owner=self.owner)

    def watch(self, sink):
        self.sinks.append(sink)

    def contribute(self, key, value, grant):
        self.calls.append(key)
        if key in self.failing:
            raise Conflict("it cannot be")
        rule = RouterRule(table=RuleTable.NAT, chain=RuleChain.PREROUTING, words=("-j", self.word))
        return RouterContribution(owner=self.owner, rules=(rule,) * len(value.related))


@pytest.fixture
def environment():
    with environments() as make:
        yield make


def rules(found, router=EDGE):
    contributions = found.router.routers()[router.id].contributions
    return [len(each.rules) for each in contributions]


@pytest.mark.spec("L3-07", "L3-09")
def test_contribution_is_made_with_the_router_and_changes_with_its_view(environment):
    extension = Counting()
    found = environment(ONE, extensions=[extension])
    found.ready()
    assert (rules(found), rules(found, INNER)) == ([1], [0])
    assert len(found.router.calls) == 3, "a sweep, and one call for each router"
    calls = len(extension.calls)
    found.source.put(floating_ip(21, EDGE, "10.1.0.12"))
    found.ready()
    assert rules(found) == [2]
    assert extension.calls[calls:] == [EDGE.id]
    found.source.remove(ref(EDGE))
    found.ready()
    assert EDGE.id not in extension.calls[calls + 1 :]


class Impostor(Counting):
    """Has a name of its own, and the owner of another extension."""

    def describe(self):
        return DriverInfo("impostor")


def test_two_extensions_with_one_owner_are_refused_by_name(environment):
    module = Counting.__module__
    with pytest.raises(ConfigError) as refusal:
        environment(extensions=[Counting(), Impostor()])
    assert str(refusal.value) == (
        f"extensions count ({module}.Counting) and impostor ({module}.Impostor) both contribute as "
        "'count': remove one of them from extensions"
    )


def test_failing_extension_degrades_itself_and_keeps_its_former_contribution(environment):
    extension, other = Counting(), Counting("other")
    found = environment(ONE, extensions=[extension, other])
    found.ready()
    extension.failing.add(EDGE.id)
    found.source.put(floating_ip(21, EDGE, "10.1.0.12"))
    status = found.until(lambda status: status.degraded)
    assert status.degraded == {f"extension count on router {EDGE.id}": "it cannot be"}
    found.until(lambda status: rules(found) == [1, 2])
    assert found.report(EDGE) == ("ACTIVE", "")
    extension.failing.clear()
    found.ready(pace=1.0)
    assert rules(found) == [2, 2]


def test_extension_is_called_again_on_its_own_request(environment):
    extension = Counting()
    found = environment(ONE, extensions=[extension])
    found.ready()
    extension.word = "DROP"
    extension.sinks[0](KeysChanged("its file changed", {EDGE.id}))
    found.ready()
    (contribution,) = found.router.routers()[EDGE.id].contributions
    assert contribution.rules[0].words == ("-j", "DROP")


@pytest.mark.spec("L3-09")
def test_extensions_read_routers_from_the_directory(environment):
    directory = RouterDirectory()
    with pytest.raises(NotFound):
        directory.status(EDGE.id)
    found = environment(ONE, extensions=[Counting()], directory=directory)
    found.ready()
    view = directory.router(EDGE.id)
    assert (view.router.id, [each.id for each in view.related]) == (EDGE.id, [ONE.id])
    assert directory.router_in(f"qrouter-{INNER.id}") == INNER.id
    assert directory.router_in("qdhcp-1") is None
    assert directory.status(EDGE.id).namespaces == {"full": f"qrouter-{EDGE.id}"}
    found.source.put(evolve(EDGE, admin_up=False, revision=2))
    found.ready()
    assert directory.router(EDGE.id) is None


def test_restarted_agent_contributes_before_the_first_call(environment):
    found = environment(ONE, extensions=[Counting()])
    found.ready()
    history = list(found.machine.history)
    found.agent.close()
    found.extensions = [Counting()]
    found.begin()
    found.ready()
    assert found.machine.history == history


@pytest.mark.spec("L3-07")
def test_extension_with_an_impossible_owner_is_a_configuration_error(environment):
    class Misnamed(Counting):
        def describe(self):
            return DriverInfo("misnamed")

    with pytest.raises(ConfigError, match=r"extension misnamed: .*owner.*'no name'"):
        environment(extensions=[Misnamed("no name")])


def dry_run(found):
    """Return the update of the router driver that a dry run plans."""
    agent = found.make_agent()
    agent.start()
    agent.apply_delta(Replica(found.source, agent.subscription, agent.resources).pull())
    routers, _ = agent.everything()
    return routers


@pytest.mark.spec("L3-07")
def test_dry_run_has_the_contributions_of_extensions(environment):
    found = environment(ONE, extensions=[Counting()])
    found.ready()
    assert dict(dry_run(found).update.put) == found.machine.present


def test_dry_run_names_the_extension_that_fails(environment):
    extension = Counting()
    found = environment(ONE, extensions=[extension])
    extension.failing.add(EDGE.id)
    refused = {str(key): str(error) for key, error in dry_run(found).refused.items()}
    assert refused == {f"extension count on router {EDGE.id}": "it cannot be"}
    assert RouterKey(EDGE.id) in dry_run(found).update.put
