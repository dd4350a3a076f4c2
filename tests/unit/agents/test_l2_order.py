"""In which order an L2 agent asks for things."""

from netfw.agents.l2.contributions import Contributions
from netfw.agents.l2.desired import Desired
from netfw.agents.l2.passing import Wanted
from netfw.agents.l2.view import View
from netfw.drivers.contribution import SwitchContribution
from netfw.drivers.keys import ExtensionKey
from tests.unit.agents.l2_world import FACTS, HERE, uuid


def test_the_order_of_what_is_wanted_is_the_same_in_every_run():
    names = [str(uuid(number)) for number in range(20)]
    base = {ExtensionKey(name): SwitchContribution(owner=name) for name in names}
    wanted = Wanted(Desired(View(host=HERE, facts=FACTS)), None, Contributions([]), base)
    values = wanted.switch_values(frozenset(base))
    assert [key.owner for key in values] == sorted(names)
