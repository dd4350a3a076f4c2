import inspect
import re

import pytest

from netfw import errors


def drawn_tree() -> dict[str, str | None]:
    """Return class name -> parent, as the module docstring draws them."""
    parents: dict[str, str | None] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if found := re.match(r"((?:[│ ]   )*)(?:[├└]── )?([A-Z]\w+)(?:  |$)", line):
            depth = len(found[1]) // 4 + ("──" in line)
            parents[found[2]] = path[depth - 1] if depth else None
            path[depth:] = [found[2]]
    return parents


@pytest.mark.spec("DRV-05")
def test_the_drawn_tree_is_the_tree() -> None:
    classes = {
        name: (None if member is errors.NetfwError else member.__base__.__name__)
        for name, member in inspect.getmembers(errors, inspect.isclass)
        if issubclass(member, errors.NetfwError)
    }
    assert drawn_tree() == classes


def test_a_near_name_is_suggested() -> None:
    assert errors.nearest("vxlna", ["vlan", "vxlan"]) == ", did you mean 'vxlan'?"
    assert errors.nearest("quux", ["vlan"]) == ""


def test_the_reason_stands_before_a_long_command() -> None:
    # A reason behind twenty options is hard to find.
    short, long = "ip netns add red", f"dnsmasq {'--an-option ' * 20}"
    refusal = errors.OperationRefused({short: "no room", long: "bad option"})
    assert str(refusal) == f"{short}: no room; bad option (refused: {long})"
    assert refusal.reasons == {short: "no room", long: "bad option"}
