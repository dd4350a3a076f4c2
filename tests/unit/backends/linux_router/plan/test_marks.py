"""Marks of address scopes, and bits granted to extensions."""

from __future__ import annotations

import pytest

from netfw.drivers.values.pipeline_grant import GrantRequest, RegisterRequest, TableRequest
from netfw.errors import ConfigError, Exhausted, NotSupported
from netfw.linux.iptables.rule import IptablesRule, target
from netfw_drivers.linux_router.plan.marks import (
    NO_SCOPE,
    GrantAllocator,
    allocate_scope_marks,
    parse_scope_marks,
    scope_comment,
    scope_text,
)
from tests.unit.backends.linux_router.samples import SCOPES


@pytest.mark.spec("L3-23")
def test_networks_without_a_scope_share_a_mark_of_their_own() -> None:
    assert allocate_scope_marks([None, SCOPES[0], None], {}) == {None: NO_SCOPE, SCOPES[0]: 1025}


@pytest.mark.spec("L3-23")
def test_a_scope_keeps_the_mark_that_its_rules_have() -> None:
    first = allocate_scope_marks([SCOPES[1]], {})
    mark = target("MARK", set_xmark=scope_text(first[SCOPES[1]]))
    line = IptablesRule(in_device="qr-1", comment=scope_comment(SCOPES[1]), target=mark).text
    again = allocate_scope_marks(SCOPES, parse_scope_marks([line, "-i qr-2 -j ACCEPT"]))
    assert again == {None: NO_SCOPE, SCOPES[0]: 1026, SCOPES[1]: 1025}


def test_marks_of_others_are_no_scopes() -> None:
    other = (
        f"-m comment --comment {scope_comment(SCOPES[0])} -j MARK --set-xmark 0x10000/0xffff0000"
    )
    assert parse_scope_marks([other]) == {}


def test_more_scopes_than_marks_are_refused() -> None:
    taken = {scope: number for number, scope in enumerate(range(1023), 1025)}
    with pytest.raises(Exhausted):
        allocate_scope_marks([*taken, SCOPES[0]], taken)  # type: ignore[arg-type,list-item]


def test_grants_do_not_overlap_and_name_their_owners_when_used_up() -> None:
    grants = GrantAllocator()
    one, two = (
        grants.grant(GrantRequest(owner=name, marks=(RegisterRequest("mine", 6),)))
        for name in ("one", "two")
    )
    assert (one.marks["mine"].first, two.marks["mine"].first) == (4, 10)
    assert one.prefix == "router-one-"
    with pytest.raises(ConfigError, match="one, two"):
        grants.grant(GrantRequest(owner="three", marks=(RegisterRequest("mine", 1),)))
    with pytest.raises(NotSupported):
        grants.grant(GrantRequest(owner="four", tables=(TableRequest(name="mine"),)))


def test_an_extension_whose_name_cannot_be_in_chains_is_refused() -> None:
    with pytest.raises(ConfigError, match="chains cannot have its name"):
        GrantAllocator().grant(GrantRequest(owner="a@b"))
