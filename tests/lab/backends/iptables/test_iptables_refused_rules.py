"""A host whose iptables lacks a match: rules that need it are left out alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from netfw.drivers.values.keys import GroupKey
from netfw.errors import PartlyInvalid
from netfw.model.protocol import TCP, UDPLITE
from netfw.plan import Update
from tests.lab.backends.iptables.environment import (
    IN,
    FirewallHost,
    a_group_id,
    group,
    rule,
)


@pytest.fixture
def without_multiport(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have iptables find all of its extensions but one."""
    (installed,) = Path("/usr/lib").glob("*/xtables")
    for library in installed.iterdir():
        if "multiport" not in library.name:
            (tmp_path / library.name).symlink_to(library)
    monkeypatch.setenv("XTABLES_LIBDIR", str(tmp_path))


@pytest.mark.spec("FW-01")
@pytest.mark.usefixtures("without_multiport")
def test_rules_that_iptables_refuses_are_left_out_alone(firewall: FirewallHost) -> None:
    one, id, other = firewall.guest(1), a_group_id(), a_group_id()
    web, ssh = (rule(id, IN, protocol=TCP, port_min=port, port_max=port) for port in (80, 22))
    lite = [rule(id, IN, protocol=UDPLITE, port_min=n, port_max=n + 9) for n in (10, 20, 30)]
    firewall.put(one.value(id), group(id, web, ssh))
    put = {**group(id, web, *lite), **group(other, rule(other, IN, protocol=TCP))}
    outcome = firewall.driver.converge(Update(put=put))
    error = outcome.failed[GroupKey(id)]
    assert isinstance(error, PartlyInvalid)
    assert error.problems.keys() == {f"rule {each.id}" for each in lite}
    assert "multiport" in str(error)
    assert outcome.done == {GroupKey(other)}
    saved = str(firewall.saved())
    assert "--dport 80 " in saved
    assert "--dport 22 " not in saved, "a revoked rule ends although another one is refused"
    again = firewall.driver.converge(Update(put=put))
    assert isinstance(again.failed[GroupKey(id)], PartlyInvalid)
    assert str(firewall.saved()) == saved
    firewall.put(group(id, web))
