"""What ``netfw explain`` takes for the numbers of a connection."""

import pytest

from netfw.cli.commands.main import main

pytestmark = pytest.mark.spec("FW-14")


@pytest.mark.parametrize(
    "words", [("tcp", "65536"), ("tcp", "-1"), ("icmp", "8", "--code", "256"), ("tcp", "ssh")]
)
def test_numbers_that_no_packet_has_are_refused(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["explain", "web", "ingress", "10.0.0.9", *words])
    assert ended.value.code == 2
    assert "is no number from 0 to" in capsys.readouterr().err
