"""Transactions of libnftables on a real kernel."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from netfw.errors import BackendBroken, NotFound, OperationRefused
from netfw.linux.nftables.operations import (
    ChangeElements,
    DropNftChain,
    DropNftSet,
    DropTable,
    MakeNftSet,
    MakeTable,
    PutNftChain,
)
from netfw.linux.nftables.tables import Nftables
from netfw.linux.nftables.values import Hook, NftChain, NftSetKind, NftTable, ObjectKey, make_rule
from netfw.testing.plugin import MakeLab

pytestmark = pytest.mark.spec("FW-15")

TABLE, OTHER = NftTable("bridge", "ours"), NftTable("inet", "ours")
ONE, TWO, BASE = (ObjectKey(TABLE, name) for name in ("one", "two", "base"))
MAP = ObjectKey(TABLE, "devices")
DEVICES = NftSetKind(("ifname",), verdicts=True)
ACCEPT = make_rule({"accept": None})
UNKNOWN = make_rule({"jump": {"target": "nowhere"}})
REFUSED = make_rule({"masquerade": None})
"""The bridge family translates no addresses."""


@pytest.fixture
def namespace(make_lab: MakeLab) -> Path:
    (host,) = make_lab(hosts=1).hosts.values()
    return Path(host.namespaces.space("net"))


@pytest.fixture
def tables(namespace: Path) -> Iterator[Nftables]:
    made = Nftables((TABLE, OTHER), namespace=namespace)
    yield made
    made.close()


def test_the_mirror_is_what_the_kernel_has(tables: Nftables) -> None:
    tables.apply(
        [
            MakeTable(TABLE),
            MakeTable(OTHER),
            MakeNftSet(MAP, DEVICES),
            PutNftChain(ONE, NftChain((ACCEPT, make_rule({"drop": None}, comment="the rest")))),
            PutNftChain(BASE, NftChain((), Hook("prerouting", 7))),
            ChangeElements(MAP, DEVICES, {("tap1",): "one"}),
        ]
    )
    mirror = tables.ruleset
    assert tables.observe() == mirror
    tables.apply(
        [
            PutNftChain(TWO, NftChain()),
            ChangeElements(MAP, DEVICES, {("tap1",): "two"}, {("tap1",): "one"}),
            DropNftChain(ONE),
            PutNftChain(BASE, NftChain((ACCEPT,), Hook("forward", 8))),
            DropTable(OTHER),
        ]
    )
    mirror = tables.ruleset
    assert tables.observe() == mirror
    assert mirror.sets[MAP].elements == {("tap1",): "two"}
    assert mirror.chains[BASE].hook == Hook("forward", 8)
    tables.apply([ChangeElements(MAP, DEVICES, {}, {("tap1",): "two"}), DropNftSet(MAP)])
    assert not tables.observe().sets
    tables.apply([DropTable(TABLE)])
    assert not tables.observe().tables


@pytest.mark.parametrize("rule", [UNKNOWN, REFUSED], ids=["no-chain", "refused"])
def test_a_refused_transaction_changes_nothing(tables: Nftables, rule: object) -> None:
    tables.apply([MakeTable(TABLE), PutNftChain(ONE, NftChain((ACCEPT,)))])
    before = tables.observe()
    refused = PutNftChain(TWO, NftChain((rule,)))  # type: ignore[arg-type]
    with pytest.raises(OperationRefused):
        tables.apply([PutNftChain(ONE, NftChain()), refused])
    assert tables.observe() == before


def test_the_refused_chain_alone_is_named(tables: Nftables) -> None:
    refused = PutNftChain(TWO, NftChain((REFUSED,)))
    jumping = PutNftChain(ONE, NftChain((make_rule({"jump": {"target": "two"}}),)))
    with pytest.raises(OperationRefused) as error:
        tables.apply([MakeTable(TABLE), jumping, refused])
    assert error.value.reasons.keys() == {refused}


def test_a_stale_mirror_is_read_again(tables: Nftables, namespace: Path) -> None:
    tables.apply([MakeTable(TABLE), PutNftChain(ONE, NftChain())])
    another = Nftables((TABLE,), namespace=namespace)
    another.apply([DropTable(TABLE)])
    another.close()
    with pytest.raises(OperationRefused):
        tables.apply([DropNftChain(ONE)])
    assert not tables.ruleset.tables


def test_a_check_changes_nothing(tables: Nftables) -> None:
    tables.check([MakeTable(TABLE), PutNftChain(ONE, NftChain((ACCEPT,)))])
    assert not tables.observe().tables
    with pytest.raises(BackendBroken, match="nftables"):
        tables.check([MakeTable(TABLE), PutNftChain(ONE, NftChain((REFUSED,)))])


_WITHOUT_SOCKETS = """
import resource
from netfw.errors import BackendError
from netfw.linux.nftables.library import NftContext, load_library

load_library()
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
try:
    NftContext()
except BackendError as error:
    print(error)
"""


def test_a_process_without_a_free_descriptor_lives_on() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_SOCKETS], capture_output=True, text=True, check=True
    )
    assert "socket for nftables" in done.stdout


def test_a_missing_namespace_is_named() -> None:
    with pytest.raises(NotFound):
        Nftables((TABLE,), namespace=Path("/run/netns/none")).observe()
