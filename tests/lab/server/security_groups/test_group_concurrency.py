"""Several servers on one database: no lost address, no rule without its address group."""

from __future__ import annotations

import pytest

from netfw.drivers.server.query import Query
from netfw.errors import NotFound
from netfw.server.db import Database
from tests.lab.server.db.processes import at_once
from tests.lab.server.security_groups.processes import (
    add_addresses,
    make_default_rule,
    plugin,
    refer_or_delete,
)
from tests.server.security_groups.client import ANNA, group

pytestmark = pytest.mark.spec("API-07", "ML2-11")

WORKERS = 3


def address_group(database: Database) -> str:
    body = {"project_id": ANNA.project_id, "name": "", "description": "", "addresses": []}
    return str(plugin(database).create(ANNA, "address_group", [body])[0]["id"])


def test_addresses_that_several_servers_change_are_all_there(url: str, database: Database) -> None:
    id, count = address_group(database), 10
    at_once(WORKERS, add_addresses, url, id, count)
    shown = plugin(database).show(ANNA, "address_group", id)
    expected = {f"10.{seed}.{at}.0/24" for seed in range(WORKERS) for at in range(0, count, 2)}
    assert set(shown["addresses"]) == expected  # type: ignore[call-overload]
    assert shown["revision_number"] == 1 + WORKERS * (count + count // 2)


def test_an_address_group_goes_only_while_no_rule_names_it(url: str, database: Database) -> None:
    here = plugin(database)
    id, member = address_group(database), group(here)["id"]
    deleted = at_once(WORKERS, refer_or_delete, url, id, member)
    query = Query(filters={"remote_address_group_id": (id,)})
    naming = here.find(ANNA, "security_group_rule", query)
    try:
        here.show(ANNA, "address_group", id)
    except NotFound:
        assert any(deleted)
        assert naming == ()
    else:
        assert len(naming) == WORKERS - 1


def test_a_default_rule_made_by_several_servers_at_once_is_copied_once(
    url: str, database: Database
) -> None:
    assert sum(at_once(WORKERS, make_default_rule, url)) >= 1
    made = group(plugin(database))
    copies = [each for each in made["security_group_rules"] if each["port_range_min"] == 22]
    assert len(copies) == 1
