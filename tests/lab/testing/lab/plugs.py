"""Plugs of instances, by number."""

from __future__ import annotations

from netfw.testing.lab.instance import Plug


def plug(number: int, bridge: str = "br-int", **more: object) -> Plug:
    options = {
        "bridge": bridge,
        "device": f"tap{number}",
        "mac": f"fa:16:3e:00:00:{number:02x}",
        "addresses": [f"10.0.0.{number}/24", f"fd00::{number:x}/64"],
        "mtu": 1400,
    }
    return Plug(**{**options, **more})
