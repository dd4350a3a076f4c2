import json
from typing import Any

import pytest

from netfw.errors import Conflict
from netfw.plan import Operation, Outcome, Plan, Stage, Update, diff


def operation(text: str, backend: str = "ovsdb", owner: str = "p1") -> Operation:
    return Operation(backend, text, {owner}, payload=None)


def test_equal_mappings_do_not_differ() -> None:
    assert not diff({"a": 1}, {"a": 1})


def test_a_difference_names_what_is_added_changed_and_removed() -> None:
    difference = diff({"a": 1, "b": 2}, {"b": 3, "c": 4})
    assert difference.added == {"a": 1}
    assert difference.changed == {"b": (3, 2)}
    assert difference.removed == {"c": 4}


@pytest.mark.parametrize(
    "parts",
    [
        {"put": {"a": 1}, "drop": {"a"}},
        {"put": {"a": 1}, "keep": {"a"}},
        {"drop": {"a"}, "keep": {"a"}},
    ],
)
def test_a_key_is_put_dropped_or_kept_and_not_two_of_these(parts: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="more than one of these: a"):
        Update(**parts)


def test_any_iterable_of_keys_will_do() -> None:
    update: Update[int, str] = Update(drop=[3, 3], keep=iter([4]))  # type: ignore[arg-type]
    assert (update.drop, update.keep) == (frozenset({3}), frozenset({4}))
    assert update.without([3]).drop == frozenset()


def test_leaving_out_adds_to_what_is_kept_already() -> None:
    update = Update(put={"a": 1}, complete=True, keep=frozenset("z"))
    assert update.without("a").keep == frozenset("az")


def test_leaving_keys_out_of_a_complete_update_keeps_them() -> None:
    update = Update(put={"a": 1, "b": 2}, drop=frozenset("c"), complete=True)
    assert update.without("ac") == Update(put={"b": 2}, complete=True, keep=frozenset("ac"))


def test_an_update_that_asks_nothing_is_falsy_but_an_empty_complete_one_is_not() -> None:
    assert not Update()
    assert Update(complete=True)


def test_a_text_may_be_made_when_it_is_asked_for() -> None:
    made: list[str] = []

    def text() -> str:
        made.append("add a")
        return made[-1]

    late = Operation("ovsdb", text, {"p1"}, payload=None)
    stage = Stage((late,))
    assert not made
    assert (late, hash(late), repr(late)) == (
        operation("add a"),
        hash(operation("add a")),
        repr(operation("add a")),
    )
    assert str(Plan((stage,))) == "1. ovsdb: add a"


def test_a_stage_is_one_step_on_one_backend() -> None:
    with pytest.raises(ValueError, match="one backend"):
        Stage((operation("x", "ovsdb"), operation("y", "flows/br-int")))
    with pytest.raises(ValueError, match="one backend"):
        Stage(())


PLAN = Plan(
    stages=(
        Stage((operation("add port tap1"), operation("add port tap2"))),
        Stage((operation("set mtu", "netlink"),)),
    ),
    waiting={"p2": "no ofport yet"},
    refused={"p3": Conflict("tap3 belongs to somebody else")},
    notes={"p4": "standby"},
)


@pytest.mark.spec("DRV-03")
def test_a_plan_reads_as_lines() -> None:
    assert str(PLAN).splitlines() == [
        "1. ovsdb: add port tap1",
        "   ovsdb: add port tap2",
        "2. netlink: set mtu",
        "waiting: p2: no ofport yet",
        "refused: p3: tap3 belongs to somebody else",
        "note: p4: standby",
    ]
    assert str(Plan()) == "nothing to do"


@pytest.mark.spec("DRV-03")
def test_a_plan_serialises_to_json() -> None:
    assert json.loads(PLAN.to_json()) == {
        "stages": [
            {
                "backend": "ovsdb",
                "operations": [
                    {"text": "add port tap1", "owners": ["p1"]},
                    {"text": "add port tap2", "owners": ["p1"]},
                ],
            },
            {"backend": "netlink", "operations": [{"text": "set mtu", "owners": ["p1"]}]},
        ],
        "waiting": {"p2": "no ofport yet"},
        "refused": {"p3": "tap3 belongs to somebody else"},
        "notes": {"p4": "standby"},
    }


def test_a_plan_that_only_waits_has_nothing_to_do() -> None:
    assert not Plan(waiting={"p": "w"})
    assert len(PLAN) == 3


def test_an_outcome_is_ok_when_nothing_failed_or_waits() -> None:
    assert Outcome(done=frozenset("a")).ok
    assert not Outcome(waiting={"a": "x"}).ok
    with pytest.raises(Conflict):
        Outcome(failed={"a": Conflict("no")}).raise_failed()


def test_an_outcome_reads_as_lines() -> None:
    outcome = Outcome(done=frozenset("a"), failed={"b": Conflict("no")}, waiting={"c": "a device"})
    assert str(outcome).splitlines() == ["done: a", "failed: b: no", "waiting: c: a device"]
