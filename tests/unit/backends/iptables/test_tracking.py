"""Connections are tracked before rules ask for that, and until none does."""

import pytest

from netfw.plan import Update
from tests.unit.backends.iptables.samples import GROUP, OUT, Kernel, a_group, a_port, a_rule

ZONED = "-i br1 -m comment --comment a0000000-0000-0000-0000-000000000000 -j CT --zone 4097"
UNTRACKED = ZONED.replace("--zone 4097", "--notrack")


def steps(kernel: Kernel, put: dict) -> list[tuple[str, bool]]:
    """Return, for each step on IPv4, whether the bridge is tracked and whether the port is
    filtered.
    """
    found = []
    for stage in kernel.plan(Update(put=put)).stages:
        for operation in stage.operations:
            kernel._do(stage.backend, operation.payload)
        if "IPv4" in stage.backend:
            tracked = ZONED in str(kernel.lines("zones.br1"))
            filtered = "-j DROP" in str(kernel.lines(_port_chain(kernel))[-1])
            found.append((tracked, filtered))
    return found


def _port_chain(kernel: Kernel) -> str:
    (name,) = {key.name for key in kernel.mirror.chains if key.name.startswith("o4")}
    return name


@pytest.mark.spec("FW-09", "FW-07")
def test_a_port_that_is_filtered_is_tracked_all_the_time() -> None:
    kernel = Kernel({"tap1": "br1"}, private=True)
    filtered, trusted = a_port(1, GROUP), a_port(1, trusted=True)
    kernel.converge(Update(put={**a_group(a_rule(OUT)), **filtered}))
    for _ in range(2):
        off = steps(kernel, trusted)
        assert (False, True) not in off
        assert off[-1] == (False, False)
        on = steps(kernel, filtered)
        assert (False, True) not in on
        assert on[-1] == (True, True)
    assert not kernel.plan(Update(put=filtered))
