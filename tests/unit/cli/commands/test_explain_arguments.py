"""What ``netfw explain`` takes for the numbers of a connection, and how it prints reasons."""

import pytest

from netfw.agents.common.status import AgentStatus, StatusFile
from netfw.cli.commands.explain import DENIED
from netfw.cli.commands.main import main

pytestmark = pytest.mark.spec("FW-14")


def test_control_characters_of_reasons_reach_no_terminal(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("OS_ENDPOINT", raising=False)
    (tmp_path / "netfw.conf").write_text(f"[DEFAULT]\nstate_path = {tmp_path}\nhost = h1\n")
    reasons = {"port 1": "no device\n\x1b[2Jall is well"}
    status = AgentStatus(binary="netfw-ovs-agent", host="h1", waiting=reasons)
    StatusFile(tmp_path / "status" / "netfw-ovs-agent.json")(status)
    assert main(["explain", "--config-file", f"{tmp_path}/netfw.conf", "port", "port 1"]) == DENIED
    shown = capsys.readouterr().out
    assert all(line.isprintable() for line in shown.split("\n"))
    assert "no device\\n\\x1b[2Jall is well" in shown


@pytest.mark.parametrize(
    "words", [("tcp", "65536"), ("tcp", "-1"), ("icmp", "8", "--code", "256"), ("tcp", "ssh")]
)
def test_numbers_that_no_packet_has_are_refused(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["explain", "web", "ingress", "10.0.0.9", *words])
    assert ended.value.code == 2
    assert "is no number from 0 to" in capsys.readouterr().err
