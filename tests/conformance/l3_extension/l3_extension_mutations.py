"""Mutations of a fake L3 extension: each breaks one promise."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_interface, ip_network
from typing import Any, ClassVar, Self

from attrs import evolve

from netfw.drivers.agent_extension import AgentExtension
from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.l3_extension import ExtendedRouter, L3Extension
from netfw.drivers.values.pipeline_grant import Grant, GrantRequest, RegisterRequest
from netfw.drivers.values.router_contribution import (
    RouterContribution,
    RouterRule,
    RuleChain,
    RuleTable,
)
from netfw.model.values.ids import RouterId
from tests.conformance.common.mutations import Mutations, breaks

MUTATIONS = Mutations()


class FakeL3Extension(L3Extension):
    """Marks the packets of each router with its granted bit."""

    VERSION: ClassVar[int] = 2

    def __init__(self) -> None:
        self.start_counting()

    def start_counting(self) -> None:
        """Start; a method of its own, so that a mutation can do more where the driver is made."""
        self.calls = 0

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls()

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("marking")

    def grant_request(self) -> GrantRequest:
        return GrantRequest(owner="marking", marks=(RegisterRequest("seen", 1),))

    def words(self, grant: Grant) -> tuple[str, ...]:
        bit = 1 << grant.marks["seen"].first
        return ("-j", "MARK", "--set-xmark", f"{bit:#x}/{bit:#x}")

    def contribute(
        self, key: RouterId, value: ExtendedRouter, grant: Grant
    ) -> RouterContribution | None:
        self.calls += 1
        rule = RouterRule(table=RuleTable.MANGLE, chain=RuleChain.FORWARD, words=self.words(grant))
        return RouterContribution(owner=grant.owner, rules=(rule,))


@MUTATIONS.override("grant_request", breaks(AgentExtension, 1))
def request_more_after_calls(driver, original):
    """Request another bit once the extension was called."""
    return evolve(original(), marks=(RegisterRequest("seen", 2 if driver.calls else 1),))


@MUTATIONS.override("words", breaks(AgentExtension, 2))
def count_calls_in_comment(driver, original, grant):
    """Return another comment with each call."""
    return ("-m", "comment", "--comment", str(driver.calls), *original(grant))


@MUTATIONS.override("contribute", breaks(AgentExtension, 2))
def prefer_first_router(driver, original, key, value, grant):
    """Contribute to the first router that was seen, and to no other."""
    driver.__dict__.setdefault("first", key)
    return original(key, value, grant) if key == driver.first else None


@MUTATIONS.override("contribute_base", breaks(AgentExtension, 2))
def count_calls_in_base(driver, original, grant):
    """Return another default after each call for a router."""
    rule = RouterRule(table=RuleTable.RAW, chain=RuleChain.INPUT, words=(str(driver.calls),))
    return RouterContribution(owner=grant.owner, rules=(rule,))


@MUTATIONS.override("contribute", breaks(AgentExtension, 3))
def name_another_owner(driver, original, key, value, grant):
    """Contribute in the name of another extension."""
    return RouterContribution(owner="other")


@MUTATIONS.override("contribute_base", breaks(AgentExtension, 3))
def name_another_owner_in_base(driver, original, grant):
    """Return a default in the name of another extension."""
    return RouterContribution(owner="other")


@MUTATIONS.override("contribute", breaks(AgentExtension, 3))
def return_rules_as_list(driver, original, key, value, grant):
    """Return rules that another caller may change."""
    made = original(key, value, grant)
    return evolve(made, rules=list(made.rules))


@MUTATIONS.override("contribute", breaks(AgentExtension, 3))
def return_words_instead_of_rules(driver, original, key, value, grant):
    """Return words where rules are wanted."""
    return evolve(original(key, value, grant), qos=driver.words(grant))


@MUTATIONS.override("contribute", breaks(AgentExtension, 3))
def name_one_address_twice(driver, original, key, value, grant):
    """Return one address of the gateway twice."""
    address = ip_interface("192.0.2.7/24")
    return evolve(original(key, value, grant), addresses=(address, address))


@MUTATIONS.override("contribute", breaks(AgentExtension, 3))
def proxy_network_instead_of_address(driver, original, key, value, grant):
    """Have the gateway answer for a whole network."""
    return evolve(original(key, value, grant), proxied=(ip_network("2001:db8::/64"),))


@MUTATIONS.override("words", breaks(AgentExtension, 3))
def jump_to_chain_of_others(driver, original, grant):
    """Send packets to a chain that is not the extension's."""
    return ("-j", "router-snat")


@MUTATIONS.override("words", breaks(AgentExtension, 3))
def set_bit_of_others(driver, original, grant):
    """Set a bit of the mark that is not granted."""
    return ("-j", "MARK", "--set-xmark", "0x1/0x1")


@MUTATIONS.override("words", breaks(AgentExtension, 3))
def set_whole_mark(driver, original, grant):
    """Set the granted bit, and clear all others."""
    return ("-j", "MARK", "--set-mark", "0x10")


@MUTATIONS.override("contribute")
def contribute_nothing(driver, original, key, value, grant):
    """Return no contribution, so that most tests have nothing to look at."""
