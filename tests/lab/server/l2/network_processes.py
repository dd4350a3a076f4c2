"""What several server processes do to one database at once, through their core plugins."""

from __future__ import annotations

import random
from typing import Any

from netfw.errors import Conflict, Exhausted, InvalidInput, NotFound
from netfw.server.db import Database
from tests.server.core.core_client import ALICE, Calls, core_plugin


def make_networks(url: str, seed: int) -> list[tuple[str, int]]:
    """Make networks until no segment is left, deleting some on the way; those that stay."""
    database, chance = Database(url), random.Random(seed)
    calls = Calls(core_plugin(database, "vlan", "gre"))
    kept: list[dict[str, Any]] = []
    try:
        while True:
            kept.append(calls.network())
            if chance.random() < 0.3:
                calls.delete("network", kept.pop(chance.randrange(len(kept)))["id"])
    except Exhausted:
        return [(each["provider:network_type"], each["provider:segmentation_id"]) for each in kept]
    finally:
        database.close()


def make_these_networks(url: str, numbers: list[int], seed: int) -> list[int]:
    """Make a network of each number, in an order of one's own; those that were free."""
    database, made = Database(url), []
    calls = Calls(core_plugin(database))
    wanted = list(numbers)
    random.Random(seed).shuffle(wanted)
    for number in wanted:
        try:
            calls.network(provider__network_type="vxlan", provider__segmentation_id=number)
        except Conflict:
            continue
        made.append(number)
    database.close()
    return made


def make_these_subnets(url: str, network: str, blocks: list[str], seed: int) -> list[str]:
    """Make subnets of one network, of which some overlap; those that could be."""
    database, made = Database(url), []
    calls = Calls(core_plugin(database))
    wanted = list(blocks)
    random.Random(seed).shuffle(wanted)
    for block in wanted:
        try:
            calls.make("subnet", ALICE, network_id=network, cidr=block)
        except InvalidInput:
            continue
        made.append(block)
    database.close()
    return made


def come_and_go(url: str, network: str, seed: int) -> int:
    """Make and delete ports, or subnets, or try to delete the network.  How much was done."""
    database, done = Database(url), 0
    calls = Calls(core_plugin(database))
    for at in range(8):
        try:
            if seed == 1:
                subnet = calls.make("subnet", ALICE, network_id=network, cidr=f"10.1.{at}.0/24")
                calls.delete("subnet", subnet["id"])
            else:
                port = calls.make("port", ALICE, network_id=network)
                calls.delete("port", port["id"])
            if seed == 0 and at > 3:
                calls.delete("network", network)
            done += 1
        except (Conflict, NotFound):
            continue
    database.close()
    return done
