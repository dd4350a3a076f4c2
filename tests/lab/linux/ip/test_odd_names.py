"""Devices whose names netfw would never give them can be read and removed."""

from __future__ import annotations

import os
import subprocess

import pytest

from netfw.linux.ip.operations import DelAddress, DelLink, DelNeighbour, DelRoute, DelRule

ODD = [b"x;y", "été".encode(), b"\xff\xfe", b'a"b', b"$(id)", b"-dash", b"\x1b[1m"]


@pytest.mark.parametrize("raw", ODD, ids=repr)
def test_a_device_of_any_name_is_read_and_removed_with_all_it_has(blue, raw):
    _ip(b"link", b"add", b"name", raw, b"type", b"bridge")
    _ip(b"link", b"set", b"dev", raw, b"up")
    _ip(b"address", b"add", b"10.5.0.1/24", b"dev", raw)
    _ip(b"route", b"add", b"10.6.0.0/24", b"via", b"10.5.0.2", b"dev", raw)
    _ip(b"rule", b"add", b"priority", b"77", b"iif", raw, b"oif", raw, b"lookup", b"7")
    _ip(b"neighbour", b"add", b"proxy", b"10.5.0.9", b"dev", raw)
    name = os.fsdecode(raw)
    assert blue.link(name) == blue.links()[name]
    (route,) = blue.static_routes()
    (rule,) = [rule for rule in blue.rules() if rule.priority == 77]
    (neighbour,) = blue.neighbours()
    address = next(e.address for e in blue.addresses(name) if e.address.interface.version == 4)
    assert {route.hops[0].device, rule.iif, rule.oif, neighbour.device, address.device} == {name}
    removals = [DelRoute(route), DelRule(rule), DelNeighbour(neighbour), DelAddress(address)]
    blue.apply([*removals, *removals])
    assert not blue.static_routes()
    assert not [rule for rule in blue.rules() if rule.priority == 77]
    assert not blue.neighbours()
    assert address not in {each.address for each in blue.addresses(name)}
    blue.apply([DelLink(name), DelLink(name)])
    assert blue.link(name) is None
    assert name not in blue.links()


def _ip(*arguments: bytes) -> None:
    done = subprocess.run([b"ip", b"-n", b"blue", *arguments], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
