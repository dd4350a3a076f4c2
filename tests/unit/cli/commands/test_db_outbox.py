"""``netfw-db outbox``: what waits can be seen, tried again and discarded."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from netfw.cli.commands import db
from netfw.drivers.server.change import Change
from netfw.model.network import Network
from netfw.model.values.ids import NetworkId
from netfw.server.db import Database
from netfw.server.db.outbox import Lane

pytestmark = pytest.mark.slow

NETWORK = Network(id=NetworkId(UUID(int=1)), revision=3)
LANE = Lane(driver="mechanism/switch", name=str(NETWORK.id))


@pytest.mark.spec("ML2-03")
def test_an_operator_sees_what_waits_and_has_it_tried_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/netfw.db"
    conf = tmp_path / "netfw.conf"
    conf.write_text(f"[database]\nconnection = {url}\n", encoding="utf-8")

    def run(*words: str) -> tuple[int, str]:
        code = db.main(["--config-file", str(conf), *words])
        return code, capsys.readouterr().out

    assert run("upgrade")[0] == 0
    assert run("outbox") == (0, "nothing waits\n")
    database = Database(url)
    change = Change(before=None, after=NETWORK)
    database.transaction(lambda tx: tx.outbox.note(LANE, change))
    assert run("outbox")[1].startswith("mechanism/switch: 1 waiting, 0 refused")
    database.transaction(lambda tx: tx.outbox.fail(tx.outbox.waiting(LANE, 9), "no such VLAN"))
    database.transaction(lambda tx: tx.outbox.claim(LANE, "me", 30))
    database.transaction(lambda tx: tx.outbox.pause(LANE, "me", 60, "it is off"))
    code, output = run("outbox")
    assert code == 1
    assert f"refused by mechanism/switch: network {NETWORK.id}: no such VLAN" in output
    assert f"later for mechanism/switch: network {NETWORK.id}, attempt 1: it is off" in output
    assert run("outbox", "--retry") == (0, "2 are tried again\n")
    assert run("outbox")[1].startswith("mechanism/switch: 1 waiting, 0 refused")
    assert run("outbox", "--discard", "switch") == (
        1,
        "nothing waits for 'switch'; something waits for mechanism/switch\n",
    )
    assert run("outbox", "--discard", "mechanism/switch") == (0, "1 discarded\n")
    assert run("outbox") == (0, "nothing waits\n")
    database.close()
