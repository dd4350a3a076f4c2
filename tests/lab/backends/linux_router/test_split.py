"""Two instances of a router that were both active, and receive each other's advertisements."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from netfw.testing.lab.wait import wait_until
from netfw_drivers.linux_router.plan.names import router_namespace
from tests.lab.backends.linux_router.environment import bring
from tests.lab.backends.linux_router.ha_instances import (
    SentFrame,
    bring_active,
    reached,
    sent_frames,
    wait_active,
    wait_roles,
)

INTERVALS = 5
"""Number of advertisements of the instance that stays active, within which it has announced twice.

It sends one in each interval, and answers one or two of the other instance.  It announces at its
answer and a second later: the first may come before the other instance has left the role.
"""


def await_advertisement(sent: Callable[[], list[SentFrame]]) -> None:
    """Wait until an instance sends its next advertisement."""
    sent()
    wait_until(lambda: any(each.is_advertisement for each in sent()), pause=0.01)


@pytest.mark.parametrize("first_to_speak", ["winner", "loser"])
@pytest.mark.spec("L3-43")
def test_instance_that_stays_active_after_a_split_announces_its_addresses(
    environment, make_driver, pair, inside, first_to_speak
):
    driver = make_driver()
    loser, winner = pair  # of equal priorities the higher address on the HA network wins
    bring_active(driver, winner)
    bring(driver, loser)
    with (
        sent_frames(router_namespace(winner.router)) as by_winner,
        sent_frames(router_namespace(loser.router)) as by_loser,
    ):
        with environment.without_advertisements():
            wait_active(driver, loser)
            wait_until(partial(reached, inside, loser))
            # The two advertise 0.2 s apart: the one that has just done so is the second to speak.
            await_advertisement(by_loser if first_to_speak == "winner" else by_winner)
        by_winner()
        heard: list[SentFrame] = []

        def advertisements() -> int:
            heard.extend(by_winner())
            return sum(each.is_advertisement for each in heard)

        wait_until(lambda: advertisements() >= INTERVALS)
    announcements = [each for each in heard if each.announced is not None]
    assert announcements, "nothing was announced"
    last = {each.announced: each.at for each in announcements}
    net, gateway = winner.nets[0], winner.outside_address
    for address in (net.address(1), net.address(1, 6), gateway):
        assert last[address] > announcements[0].at + 0.5, f"{address} was not announced again"
    assert wait_roles(driver, *pair) == (winner, loser)
    wait_until(partial(reached, inside, winner))
