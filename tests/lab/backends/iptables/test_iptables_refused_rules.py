"""A host whose iptables lacks a match: rules that need it are left out alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from netfw.drivers.values.keys import GroupKey
from netfw.errors import PartlyInvalid
from netfw.model.values.protocol import TCP, UDPLITE
from netfw.plan import Update
from tests.lab.linux.bridge_firewall.environment import (
    IN,
    FirewallHost,
    a_group_id,
    group,
    rule,
)


@pytest.fixture
def install_multiport(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Hide one extension from iptables, and return a function that installs it."""
    (directory,) = Path("/usr/lib").glob("*/xtables")
    absent = []
    for library in directory.iterdir():
        if "multiport" in library.name:
            absent.append(library)
        else:
            (tmp_path / library.name).symlink_to(library)
    monkeypatch.setenv("XTABLES_LIBDIR", str(tmp_path))

    def install() -> None:
        for library in absent:
            (tmp_path / library.name).symlink_to(library)

    return install


@pytest.mark.spec("FW-01")
@pytest.mark.usefixtures("install_multiport")
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


@pytest.mark.spec("FW-01")
@pytest.mark.parametrize("occasion", ["change", "audit"])
def test_refused_rules_are_tried_again_with_a_change_of_their_group_or_at_an_audit(
    firewall: FirewallHost, install_multiport: Callable[[], None], occasion: str
) -> None:
    one, id = firewall.guest(1), a_group_id()
    web = rule(id, IN, protocol=TCP, port_min=80, port_max=80)
    lite = rule(id, IN, protocol=UDPLITE, port_min=10, port_max=19)
    put = {**one.value(id), **group(id, lite)}
    driver = firewall.driver
    assert GroupKey(id) in driver.converge(Update(put=put)).failed
    install_multiport()
    again = driver.converge(Update(put=put))
    assert isinstance(again.failed[GroupKey(id)], PartlyInvalid), "the same group is not tried"
    assert "udplite" not in str(firewall.saved())
    if occasion == "change":
        assert driver.converge(Update(put=group(id, lite, web))).ok
    else:
        assert driver.converge(Update(put=put, complete=True)).ok
    assert "udplite" in str(firewall.saved())
    assert driver.converge(Update(put=group(id, lite))).ok
