"""A command that did its work and could not say so: what is there is read before it is believed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from ipaddress import ip_network
from pathlib import Path

import pytest

from netfw.errors import BackendBroken, BackendUnavailable
from netfw.linux.ipset import IpSet, IpSets, SetKind
from netfw.linux.iptables import ACCEPT, DROP, Chain, ChainKey, Family, Iptables, IptablesRule
from netfw.plan import Update

KEY = ChainKey(family=Family.IPV4, table="filter", name="in")
HOOKED = Update(put={KEY: Chain((IptablesRule(target=ACCEPT),), frozenset({"INPUT"}))})
OTHER = Update(put={KEY: Chain((IptablesRule(target=DROP),), frozenset({"INPUT"}))})
A, B = ip_network("10.0.0.0/8"), ip_network("172.16.0.0/12")

Failing = Callable[[str, str, int], AbstractContextManager[None]]


@pytest.fixture
def failing_afterwards(monkeypatch, tmp_path: Path) -> Failing:
    """Return a context in which a command of the system does its work and then reports failure."""

    @contextmanager
    def fail(command: str, words: str, status: int):
        script = tmp_path / command
        script.write_text(
            f'#!/bin/sh\n{shutil.which(command)} "$@"\necho "{words}" >&2\nexit {status}\n'
        )
        script.chmod(0o755)
        with monkeypatch.context() as patched:
            patched.setenv("PATH", f"{tmp_path}:/usr/sbin:/usr/bin:/sbin:/bin")
            yield

    return fail


@pytest.fixture
def tables(space, tool) -> Iptables:
    return Iptables("own", namespace=space, tool=tool)


def test_a_restore_of_rules_that_was_done_and_not_said_is_not_done_twice(
    tables, tool, shell, failing_afterwards
):
    tables.observe()
    command = f"iptables{tool.backend.value}"
    with (
        failing_afterwards(f"{command}-restore", "xtables lock", 4),
        pytest.raises(BackendUnavailable),
    ):
        tables.converge(HOOKED)
    tables.converge(HOOKED)
    assert shell(f"{command}-save").count("-A INPUT -j own-in") == 1


def test_rules_that_were_changed_and_not_said_are_changed_back(
    tables, tool, shell, failing_afterwards
):
    tables.converge(HOOKED)
    command = f"iptables{tool.backend.value}"
    with (
        failing_afterwards(f"{command}-restore", "xtables lock", 4),
        pytest.raises(BackendUnavailable),
    ):
        tables.converge(OTHER)
    tables.converge(HOOKED)
    assert "-A own-in -j ACCEPT" in shell(f"{command}-save")


def test_what_is_in_doubt_stays_so_until_it_is_read(tables, tool, failing_afterwards):
    # A change that was planned before the doubt, and succeeds, proves nothing of the rest.
    nat = ChainKey(family=Family.IPV4, table="nat", name="in")
    tables.converge(HOOKED)
    first, second = tables.plan(
        Update(put={**OTHER.put, nat: Chain((IptablesRule(target=ACCEPT),))})
    )
    with (
        failing_afterwards(f"iptables{tool.backend.value}-restore", "xtables lock", 4),
        pytest.raises(BackendUnavailable),
    ):
        tables.apply(first)
    tables.apply(second)
    (change,) = tables.plan(HOOKED)
    assert [operation.key for operation in change.operations] == [KEY]


def test_members_that_were_removed_and_not_said_are_added_again(space, shell, failing_afterwards):
    sets = IpSets("own", namespace=space)
    sets.converge(Update(put={"a": IpSet(SetKind(), frozenset({A, B}))}))
    with failing_afterwards("ipset", "not permitted", 1), pytest.raises(BackendBroken):
        sets.change("a", remove=[A])
    sets.change("a", add=[A])
    assert f"add own-a {A}" in shell("ipset save")
