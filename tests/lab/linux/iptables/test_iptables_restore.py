"""One restore of several tables, and edits of long chains, with both backends."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from attrs import field, frozen

from netfw.linux.iptables import (
    DROP,
    Chain,
    ChainKey,
    Family,
    Iptables,
    IptablesBinaries,
    IptablesRule,
    Jump,
    match,
    target,
)
from netfw.linux.iptables.operations import DropForeignRules, PutChain, TableChange
from netfw.linux.iptables.plan import plan_chains
from netfw.linux.iptables.refusal import RulesRefused
from netfw.plan import Update

MARKS = ChainKey(family=4, table="mangle", name="marks")
DNAT = ChainKey(family=4, table="nat", name="dnat")
SCOPE = ChainKey(family=4, table="filter", name="scope")
SCOPE6 = ChainKey(family=6, table="filter", name="scope")
FIPS = ChainKey(family=4, table="nat", name="fips")


@frozen
class CountingBinaries(IptablesBinaries):
    """The tool, with what was restored."""

    scripts: list[tuple[Family, str]] = field(factory=list, eq=False)

    def restore(self, family, text, namespace):
        if namespace is not None:
            self.scripts.append((family, text))
        return super().restore(family, text, namespace)


def router(mark: str, address: str, device: str, bad: IptablesRule | None = None) -> Update:
    translate = IptablesRule(
        destination=ip_network("203.0.113.5"),
        target=target("DNAT", to_destination=address),
        owner="fip good",
    )
    return Update(
        {
            MARKS: Chain(
                (
                    IptablesRule(
                        in_device=device, target=target("MARK", set_xmark=f"{mark}/0xffff")
                    ),
                ),
                frozenset({"PREROUTING"}),
            ),
            DNAT: Chain((translate, *((bad,) if bad else ())), frozenset({"PREROUTING"})),
            SCOPE: Chain(
                (
                    IptablesRule(
                        out_device=device, matches=(match("mark", mark=mark),), target=DROP
                    ),
                ),
                frozenset({"FORWARD"}),
            ),
            SCOPE6: Chain((IptablesRule(in_device=device, target=DROP),), frozenset({"FORWARD"})),
        },
        complete=True,
    )


OLD = router("0x400", "10.0.0.5", "qr-1")
NEW = router("0x401", "10.0.0.6", "qr-2")
REFUSED_BY_PARSER = IptablesRule(
    target=target("DNAT", to_destination="999.1.1.1"), protocol="tcp", owner="fip bad"
)
REFUSED_BY_KERNEL = IptablesRule(
    target=target("TPROXY", on_port=1), protocol="tcp", owner="fip bad"
)


@pytest.fixture
def counting(tool: IptablesBinaries) -> CountingBinaries:
    return CountingBinaries(tool.backend)


@pytest.fixture
def tables(space: str, counting: CountingBinaries) -> Iptables:
    return Iptables("own", namespace=space, tool=counting)


def saved(shell, tool) -> list[str]:
    both = (shell(f"{name}{tool.backend.value}-save") for name in ("iptables", "ip6tables"))
    return [
        line for text in both for line in text.splitlines() if "own-" in line and line[0] in "-:"
    ]


@pytest.mark.spec("L3-30")
def test_all_tables_of_a_family_are_loaded_by_one_restore(tables, counting, shell):
    tables.converge(OLD)
    counting.scripts.clear()
    tables.converge(NEW)
    assert [family for family, _ in counting.scripts] == [Family.IPV4, Family.IPV6]
    headers = [line for line in counting.scripts[0][1].splitlines() if line.startswith("*")]
    assert headers == ["*filter", "*mangle", "*nat", "*filter"]
    assert tables.plan(NEW) == ()
    tables.observe()
    assert tables.plan(NEW) == ()


@pytest.mark.parametrize("bad", [REFUSED_BY_PARSER, REFUSED_BY_KERNEL], ids=["parser", "kernel"])
@pytest.mark.spec("L3-30")
def test_after_a_refusal_the_former_rules_of_all_tables_are_in_force(tables, tool, shell, bad):
    tables.converge(OLD)
    before = saved(shell, tool)
    refused = router("0x401", "10.0.0.6", "qr-2", bad)
    changes = tables.plan(refused)
    with pytest.raises(RulesRefused) as refusal:
        tables.restore(changes)
    assert saved(shell, tool) == before
    (operation,) = refusal.value.reasons
    assert isinstance(operation, PutChain)
    assert operation.key == DNAT
    assert refusal.value.rules[operation].owner == "fip bad"
    assert not hasattr(refusal.value, "__notes__")
    tables.converge(NEW)
    tables.observe()
    assert tables.plan(NEW) == ()


@pytest.mark.spec("L3-30")
def test_a_refusal_of_the_second_family_rolls_the_first_one_back(tables, tool, shell):
    tables.converge(OLD)
    before = saved(shell, tool)
    bad = IptablesRule(target=target("REJECT", reject_with="icmp-net-unreachable"), owner="fip 6")
    broken = Update({**NEW.put, SCOPE6: Chain((bad,), frozenset({"FORWARD"}))}, complete=True)
    with pytest.raises(RulesRefused) as refusal:
        tables.converge(broken)
    assert [rule.owner for rule in refusal.value.rules.values()] == ["fip 6"]
    assert saved(shell, tool) == before


@pytest.mark.spec("L3-30")
def test_a_first_restore_that_is_refused_leaves_nothing(tables, tool, shell):
    with pytest.raises(RulesRefused):
        tables.converge(router("0x400", "10.0.0.5", "qr-1", REFUSED_BY_PARSER))
    assert saved(shell, tool) == []


def floating_ips(numbers) -> Update:
    rules = tuple(
        IptablesRule(
            destination=ip_network(f"10.9.{number // 250}.{number % 250}"),
            target=target("DNAT", to_destination=f"10.1.{number // 250}.{number % 250}"),
            owner=number,
        )
        for number in numbers
    )
    return Update(
        {
            FIPS: Chain(rules),
            DNAT: Chain((IptablesRule(target=Jump("fips")),), frozenset({"PREROUTING"})),
        },
        complete=True,
    )


@pytest.mark.parametrize(
    "numbers",
    [
        range(1001),
        range(999),
        range(1, 1000),
        [*range(500), 1200, *range(500, 1000)],
        [*range(100), *range(101, 700), 1300, 1301, *range(702, 1000), 1302],
    ],
    ids=["append", "remove last", "remove first", "insert", "several"],
)
def test_long_chain_is_changed_without_rewriting_it(tables, counting, shell, numbers):
    tables.converge(floating_ips(range(1000)))
    counting.scripts.clear()
    tables.converge(floating_ips(numbers))
    ((_, text),) = counting.scripts
    assert len(text.splitlines()) < 10
    tables.observe()  # read back
    assert tables.plan(floating_ips(numbers)) == ()


def test_long_chain_that_another_program_changed_is_repaired(tables, tool, shell):
    tables.converge(floating_ips(range(100)))
    shell(f"iptables{tool.backend.value} -t nat -D own-fips 50")
    with_one_gone = floating_ips([*range(49), *range(50, 101)])
    tables.converge(with_one_gone)  # removing what is gone is refused, and planned anew
    tables.observe()
    assert tables.plan(with_one_gone) == ()
    shell(f"iptables{tool.backend.value} -t nat -D own-fips 7")
    tables.observe()
    (change,) = tables.plan(with_one_gone)
    (put,) = change.operations
    assert isinstance(put, PutChain)
    assert put.edits is not None
    assert len(put.edits.inserted) == 1
    tables.restore([change])
    tables.observe()
    assert tables.plan(with_one_gone) == ()


def test_a_sole_owner_removes_the_rules_of_others(space, tool, shell):
    # This holds while its own chains change in several tables, in whose order hooks stay.
    tables = Iptables("own", namespace=space, tool=tool)
    first, second = router("0x1", "10.0.0.5", "a"), router("0x2", "10.0.0.6", "b")
    tables.converge(first)
    command = f"iptables{tool.backend.value}"
    shell(f"{command} -I FORWARD -m comment --comment 'not own-scope' -j DROP")
    shell(f"{command} -A FORWARD -p udp -j ACCEPT")
    shell(f"{command} -P INPUT DROP")
    shell(f"{command} -t nat -A PREROUTING -j ACCEPT")
    shell(f"{command} -t nat -N unused")
    tables.observe()
    mirror, spelling = tables.mirror(second)
    assert not any(map(is_foreign, plan_chains(second, mirror, "own", spelling)))
    changes = plan_chains(second, mirror, "own", spelling, sole_owner=True)
    assert sum(map(is_foreign, changes)) == 2
    tables.restore(changes)
    for _ in range(2):
        mirror, spelling = tables.mirror(second)
        assert plan_chains(second, mirror, "own", spelling, sole_owner=True) == ()
        tables.observe()
    saved = shell(f"{command}-save").splitlines()
    builtin = [line for line in saved if line.startswith("-A") and "-A own-" not in line]
    assert len(builtin) == 3
    assert all("-j own-" in line for line in builtin)
    assert any(line.startswith(":INPUT ACCEPT") for line in saved)
    assert any(line.startswith(":unused") for line in saved)


def is_foreign(change: TableChange) -> bool:
    return any(isinstance(each, DropForeignRules) for each in change.operations)
