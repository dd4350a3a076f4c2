"""Iptables against the kernel, with both backends."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path

import pytest

from netfw.errors import BackendBroken, BackendUnavailable, Conflict, OperationRefused
from netfw.linux import netns
from netfw.linux.iptables import (
    ACCEPT,
    DROP,
    RETURN,
    Backend,
    Chain,
    ChainKey,
    Family,
    Iptables,
    IptablesBinaries,
    IptablesRule,
    Jump,
    Not,
    match,
    target,
)
from netfw.plan import Update

FORWARD = ChainKey(family=Family.IPV4, table="filter", name="FORWARD")
PORT = ChainKey(family=Family.IPV4, table="filter", name="port")
PORT6 = ChainKey(family=Family.IPV6, table="filter", name="port")
SNAT = ChainKey(family=Family.IPV4, table="nat", name="POSTROUTING")

HTTP = IptablesRule(
    source=ip_network("10.0.0.0/8"),
    protocol="tcp",
    matches=(match("tcp", dport=80),),
    comment="web: allow",
    target=ACCEPT,
)
WANTED = {
    FORWARD: Chain((IptablesRule(target=Jump("port")),), frozenset({"FORWARD"})),
    PORT: Chain((HTTP, IptablesRule(target=RETURN, in_device="tap+"), IptablesRule(target=DROP))),
    PORT6: Chain(
        (IptablesRule(source=ip_network("fd00::/8"), target=ACCEPT),), frozenset({"INPUT"})
    ),
    SNAT: Chain(
        (IptablesRule(target=target("MASQUERADE"), destination=Not(ip_network("10.0.0.0/8"))),),
        frozenset({"POSTROUTING"}),
    ),
}
EVERYTHING = Update(WANTED, complete=True)


@pytest.fixture
def tables(space: str, tool: IptablesBinaries) -> Iptables:
    return Iptables("nfw", namespace=space, tool=tool)


@pytest.fixture
def command(tool: IptablesBinaries) -> str:
    return f"iptables{tool.backend.value}"


def rules(shell, command, chain="") -> list[str]:
    text = shell(f"{command}-save -t filter")
    return [line for line in text.splitlines() if line.startswith(f"-A {chain}")]


def again(tables: Iptables) -> Iptables:
    """Return the tables of the same owner after a restart of the agent."""
    return Iptables(tables.owner, namespace=tables.namespace, tool=tables._tool)


def test_what_is_wanted_is_there(tables, shell, command):
    tables.converge(EVERYTHING)
    assert rules(shell, command) == [
        "-A FORWARD -j nfw-FORWARD",
        "-A nfw-FORWARD -j nfw-port",
        '-A nfw-port -s 10.0.0.0/8 -p tcp -m tcp --dport 80 -m comment --comment "web: allow"'
        " -j ACCEPT",
        "-A nfw-port -i tap+ -j RETURN",
        "-A nfw-port -j DROP",
    ]
    assert "-A nfw-port -s fd00::/8 -j ACCEPT" in shell(command.replace("ip", "ip6", 1) + "-save")
    assert "! -d 10.0.0.0/8 -j MASQUERADE" in shell(f"{command}-save -t nat")


def test_converging_twice_changes_nothing(tables):
    tables.converge(EVERYTHING)
    assert tables.plan(EVERYTHING) == ()
    tables.observe()
    assert tables.plan(EVERYTHING) == ()


def test_after_a_restart_unchanged_chains_are_recognised(tables):
    tables.converge(EVERYTHING)
    assert again(tables).plan(EVERYTHING) == ()


ODDLY_SPELLED = (
    IptablesRule(target=target("REJECT")),
    IptablesRule(target=target("MARK", set_mark="7")),
    IptablesRule(target=ACCEPT, protocol="6", matches=(match("multiport", dports="http,443"),)),
    IptablesRule(target=ACCEPT, matches=(match("conntrack", ctstate="RELATED,ESTABLISHED"),)),
    IptablesRule(target=ACCEPT, matches=(match("mac", mac_source="FA:16:3E:00:00:01"),)),
    IptablesRule(target=ACCEPT, matches=(match("set", match_set=("members", "src")),)),
    IptablesRule(target=ACCEPT, matches=(match("limit", limit="60/min"),)),
    IptablesRule(
        target=ACCEPT, matches=(match("physdev", physdev_in="tap1", physdev_is_bridged=True),)
    ),
)
MANGLE = ChainKey(family=Family.IPV4, table="mangle", name="odd")


def test_rules_that_iptables_spells_in_its_own_way_are_recognised_too(tables, shell):
    shell("ipset create members hash:net")
    odd = Update(
        {
            PORT: Chain((ODDLY_SPELLED[0], *ODDLY_SPELLED[2:])),
            MANGLE: Chain(ODDLY_SPELLED[1:]),
        },
        complete=True,
    )
    tables.converge(odd)
    restarted = again(tables)
    assert restarted.plan(odd) == ()
    restarted.observe()
    assert restarted.plan(odd) == ()


@pytest.mark.parametrize(
    "tampering",
    [
        "-D nfw-port -j DROP",
        "-I nfw-port -j ACCEPT",
        "-R nfw-port 3 -j ACCEPT",
        "-F nfw-port",
        "-D FORWARD -j nfw-FORWARD",
        "-A FORWARD -j nfw-FORWARD",
        "-A INPUT -j nfw-port",
        "-A FORWARD -s 1.2.3.4 -j nfw-port",
        "-N nfw-stray",
    ],
)
def test_tampering_is_noticed_and_put_right(tables, shell, command, tampering):
    tables.converge(EVERYTHING)
    before = rules(shell, command)
    shell(f"{command} {tampering}")
    tables.observe()
    assert len(tables.plan(EVERYTHING)) == 1
    tables.converge(EVERYTHING)
    assert rules(shell, command) == before
    assert "stray" not in shell(f"{command}-save")


def test_a_rule_changed_by_hand_with_its_comment_kept_is_noticed_after_a_restart(
    tables, shell, command
):
    tables.converge(EVERYTHING)
    text = shell(f"{command}-save")
    shell(f"{command}-restore", feed=text.replace("--dport 80", "--dport 8080"))
    assert again(tables).plan(EVERYTHING) != ()


def test_swapped_rules_are_noticed_after_a_restart(tables, shell, command):
    tables.converge(EVERYTHING)
    shell(f"{command} -D nfw-port -j DROP")
    shell(f"{command} -I nfw-port -j DROP")
    assert [str(change) for change in again(tables).plan(EVERYTHING)] == [
        "put IPv4 filter chain port: 3 rules"
    ]


def test_the_rules_of_others_are_neither_touched_nor_reordered(tables, shell, command):
    shell(f"{command} -N docker")
    shell(f"{command} -N nfwx-other")
    shell(f"{command} -A docker -p tcp -j RETURN")
    for rule in ("-s 1.1.1.1 -j docker", "-j nfwx-other", "-s 2.2.2.2 -j DROP"):
        shell(f"{command} -A FORWARD {rule}")
    foreign = rules(shell, command)
    tables.converge(EVERYTHING)
    tables.converge(Update({PORT: Chain((IptablesRule(target=ACCEPT),))}))
    assert [line for line in rules(shell, command) if "nfw-" not in line] == foreign
    assert rules(shell, command, "FORWARD")[0] == "-A FORWARD -j nfw-FORWARD"
    tables.converge(Update(complete=True))
    assert rules(shell, command) == foreign


def test_two_owners_do_not_see_each_other(tables, shell, command):
    other = Iptables("nfw_2", namespace=tables.namespace, tool=tables._tool)
    other.converge(Update({PORT: Chain((IptablesRule(target=ACCEPT),), frozenset({"INPUT"}))}))
    tables.converge(EVERYTHING)
    tables.converge(Update(complete=True))
    assert other.observe() == {PORT}
    assert tables.observe() == frozenset()
    assert rules(shell, command) == ["-A INPUT -j nfw_2-port", "-A nfw_2-port -j ACCEPT"]


def test_removing_an_owner_leaves_no_trace(tables, shell, command):
    before = {t: shell(f"{command}-save -t {t} | grep -v '^#'") for t in ("filter", "nat")}
    tables.converge(EVERYTHING)
    again(tables).converge(Update(complete=True))
    after = {t: shell(f"{command}-save -t {t} | grep -v '^#'") for t in ("filter", "nat")}
    assert after == before


def test_a_hook_can_be_last(tables, shell, command):
    shell(f"{command} -A INPUT -s 1.1.1.1 -j DROP")
    tables.converge(Update({PORT: Chain((), frozenset({"INPUT"}), hooked_last=True)}))
    assert rules(shell, command, "INPUT")[-1] == "-A INPUT -j nfw-port"


@pytest.mark.spec("FW-09")
@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (IptablesRule(target=target("ACCEPT", nonsense=1)), "--nonsense"),
        (IptablesRule(target=ACCEPT, matches=(match("set", match_set=("nope", "src")),)), "nope"),
        (IptablesRule(target=target("MASQUERADE"), comment="blame me"), "blame me"),
        (IptablesRule(target=target("NOWHERE")), "NOWHERE"),
    ],
    ids=["option", "set", "kernel", "target"],
)
def test_a_refused_change_leaves_the_former_rules_in_force_and_names_the_line(
    tables, shell, command, bad, words
):
    tables.converge(EVERYTHING)
    before = rules(shell, command)
    changed = {
        PORT: Chain((IptablesRule(target=ACCEPT, comment="good one"),)),
        FORWARD: Chain((IptablesRule(target=ACCEPT), bad, IptablesRule(target=DROP))),
    }
    with pytest.raises(OperationRefused) as refusal:
        tables.converge(Update(changed))
    assert words in str(refusal.value)
    assert "good one" not in str(refusal.value)
    assert [getattr(each, "key", None) for each in refusal.value.reasons] == [FORWARD]
    assert rules(shell, command) == before
    assert tables.plan(EVERYTHING) == ()


def test_a_loop_of_chains_is_refused_as_a_whole(tables, shell, command):
    tables.converge(EVERYTHING)
    before = rules(shell, command)
    loop = Chain((IptablesRule(target=Jump("FORWARD")),))
    with pytest.raises(OperationRefused, match="port"):
        tables.converge(Update({PORT: loop}))
    assert rules(shell, command) == before


def test_a_chain_in_use_by_a_stranger_is_not_removed(tables, shell, command):
    tables.converge(EVERYTHING)
    shell(f"{command} -N mine")
    shell(f"{command} -A mine -j nfw-port")
    with pytest.raises(OperationRefused, match="port"):
        tables.converge(Update(complete=True))
    assert "-A nfw-port -j DROP" in rules(shell, command)


def test_a_jump_to_nowhere_is_refused_before_anything_is_done(tables):
    with pytest.raises(Conflict, match="leads to chain nowhere"):
        tables.converge(Update({PORT: Chain((IptablesRule(target=Jump("nowhere")),))}))


def test_stale_mirror_is_read_again(tables, shell, command):
    tables.converge(EVERYTHING)
    before = rules(shell, command)
    shell(f"{command} -D FORWARD -j nfw-FORWARD")
    tables.converge(Update(drop=frozenset({FORWARD})))
    tables.converge(EVERYTHING)
    assert rules(shell, command) == before


@pytest.mark.spec("FW-12")
@pytest.mark.parametrize(
    "hostile",
    [
        'say "hi"',
        "it's",
        "back\\slash",
        'end"\\',
        "$(reboot) `reboot` ; | & #",
        "-j ACCEPT"[1:],
        "tab-less ünïcode ☃",
        "x" * 255,
        "COMMIT",
        "*nat",
        "! !",
    ],
)
def test_hostile_comments_are_only_comments(tables, shell, command, hostile):
    wanted = Update({PORT: Chain((IptablesRule(target=DROP, comment=hostile),))}, complete=True)
    tables.converge(wanted)
    assert len(rules(shell, command)) == 1
    assert again(tables).plan(wanted) == ()


def test_xtables_lock_held_by_another_process_is_retryable(space, shell):
    tables = Iptables("nfw", namespace=space, tool=IptablesBinaries(Backend.LEGACY, lock_wait=1))
    with subprocess.Popen(
        ["flock", "/run/xtables.lock", "sh", "-c", "echo; read x"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(BackendUnavailable, match="lock"):
            tables.converge(EVERYTHING)
        holder.communicate(b"\n")
    tables.converge(EVERYTHING)
    assert tables.plan(EVERYTHING) == ()


def test_a_missing_command_says_what_to_install(space, monkeypatch, tmp_path: Path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BackendBroken, match="apt install iptables"):
        Iptables("nfw", namespace=space).converge(EVERYTHING)


def test_the_same_namespace_name_of_another_host_is_another_namespace(tables, shell, command):
    # Namespaces may also be given by a path.
    path = netns.path_of(tables.namespace)
    by_path = Iptables("nfw", namespace=path, tool=tables._tool)
    by_path.converge(EVERYTHING)
    assert again(tables).plan(EVERYTHING) == ()


@pytest.fixture
def busy_neighbour(tables, command) -> Iterator[None]:
    """Run a thread that changes rules of another owner all the time."""
    over = threading.Event()

    def change() -> None:
        while not over.is_set():
            for verb in ("-A", "-D"):
                subprocess.run(
                    [command, "-w", "5", verb, "FORWARD", "-s", "9.9.9.9", "-j", "DROP"],
                    check=True,
                )

    thread = threading.Thread(
        target=netns.run_in, args=(tables.namespace, change), name="neighbour"
    )
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.usefixtures("busy_neighbour")
def test_concurrent_rule_changes_of_another_program_are_tolerated(tables):
    for round_ in range(20):
        rule = IptablesRule(target=DROP, comment=f"round {round_}")
        tables.converge(Update({**WANTED, PORT: Chain((rule,))}, complete=True))
    assert again(tables).plan(Update({PORT: Chain((rule,))})) == ()
