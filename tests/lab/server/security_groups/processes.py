"""What several server processes do to address groups and default rules at once."""

from __future__ import annotations

from netfw.errors import Conflict, NotFound
from netfw.server.core.server_context import ServerContext
from netfw.server.db import Database
from netfw.server.security_groups.groups import SecurityGroupsPlugin
from netfw_drivers.ipam.internal import InternalIpamDriver
from tests.server.security_groups.client import ADMIN, ANNA, rule

SSH = {
    "direction": "ingress",
    "protocol": "tcp",
    "port_range_min": 22,
    "port_range_max": 22,
    "used_in_default_sg": True,
    "used_in_non_default_sg": True,
}


def plugin(database: Database) -> SecurityGroupsPlugin:
    return SecurityGroupsPlugin(ServerContext(database=database, ipam=InternalIpamDriver()))


def add_addresses(url: str, group: str, count: int, seed: int) -> None:
    """Add addresses of one's own, one by one; remove every second one."""
    database = Database(url)
    here = plugin(database)
    for at in range(count):
        body = {"addresses": [f"10.{seed}.{at}.0/24"]}
        here.member_action(ANNA, "address_group", group, "add_addresses", body)
        if at % 2:
            here.member_action(ANNA, "address_group", group, "remove_addresses", body)
    database.close()


def refer_or_delete(url: str, group: str, security_group: str, seed: int) -> bool:
    """Make a rule that names the address group, or try to delete that; whether it was deleted."""
    database, deleted = Database(url), False
    here = plugin(database)
    for at in range(5):
        try:
            if seed:
                ports = {"port_range_min": 100 * seed + at, "port_range_max": 100 * seed + at}
                made = rule(here, security_group, **ports, remote_address_group_id=group)
                here.delete(ANNA, "security_group_rule", made["id"])
            else:
                here.delete(ANNA, "address_group", group)
                deleted = True
        except (Conflict, NotFound):
            continue
    if seed:
        last = {"port_range_min": seed, "port_range_max": seed}
        try:
            rule(here, security_group, **last, remote_address_group_id=group)
        except NotFound:
            deleted = True
    database.close()
    return deleted


def make_default_rule(url: str, seed: int) -> int:
    """Make the same default rule as others; how many were made."""
    database = Database(url)
    try:
        return len(plugin(database).create(ADMIN, "default_security_group_rule", [SSH]))
    except Conflict:
        return 0
    finally:
        database.close()
