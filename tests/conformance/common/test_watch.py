"""The watch around the calls of a driver, on drivers that misbehave in one way each."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import pytest
from oslo_config import cfg

from netfw.drivers.base import Capability, Driver, DriverInfo, HostResources
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.errors import BackendUnavailable, Conflict
from netfw.plan import Outcome, Update
from netfw.testing.conformance.watch.call_rules import WAIT_LIMIT
from netfw.testing.conformance.watch.calls import unwatched, watched_calls
from netfw.testing.conformance.watch.fingerprint import fingerprint
from netfw.testing.conformance.watch.held_resources import HeldResources, growth
from netfw.testing.conformance.watch.machine_probe import without_switch_devices
from netfw.testing.conformance.watch.machine_state import (
    IDENTITY,
    MachineState,
    effects,
    machine_changes,
)
from netfw.testing.conformance.watch.result_checks import result_errors

pytestmark = pytest.mark.fakes


class Quiet(Driver):
    """A driver that does nothing."""

    GROUP: ClassVar[str] = "test.drivers"
    VERSION: ClassVar[int] = 1

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self.options = options or {}

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(options)

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("quiet")


class ConnectsWhenMade(Quiet):
    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(options)
        socket.socket().close()


class ReadsWhenConfigured(Quiet):
    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        with open("/proc/self/comm", encoding="ascii"):
            return cls(options)


class ShowsSecret(Quiet):
    OPTIONS = (cfg.StrOpt("api_password", secret=True),)

    def problems(self) -> tuple[str, ...]:
        return (f"the server refuses {self.options['api_password']}",)


class Waits(Quiet):
    def problems(self) -> tuple[str, ...]:
        threading.Event().wait(0.3)
        return ()

    def close(self) -> None:
        threading.Event().wait(0.3)
        raise BackendUnavailable("there is no answer")


class PrintsAndRaises(Quiet):
    def close(self) -> None:
        print("closing")  # noqa: T201
        raise ValueError("no")


class TextlessRefusal(Quiet):
    def close(self) -> None:
        raise Conflict("")


def use(kind: type[Quiet], work: Callable[[Quiet], object], wait_limit: float = WAIT_LIMIT) -> None:
    with watched_calls(wait_limit):
        work(kind.from_conf({"api_password": "hunter2"}, LocalHostResources()))


def test_driver_that_does_nothing_passes() -> None:
    use(Quiet, lambda driver: (driver.describe(), driver.problems(), driver.close()))


@pytest.mark.parametrize("kind", [ConnectsWhenMade, ReadsWhenConfigured])
def test_input_and_output_in_a_constructor_is_refused(kind: type[Quiet]) -> None:
    with pytest.raises(AssertionError, match=f"{kind.__name__} breaks promise 1 of Driver"):
        use(kind, lambda driver: None)


def test_secret_in_a_result_is_refused() -> None:
    with pytest.raises(AssertionError, match=r"ShowsSecret\.problems: promise 7 of Driver"):
        use(ShowsSecret, lambda driver: driver.problems())


def test_call_that_waits_is_refused() -> None:
    with pytest.raises(AssertionError, match=r"Waits\.problems: promise 5 of Driver: it waited"):
        use(Waits, lambda driver: driver.problems(), wait_limit=0.1)


def test_call_that_reports_an_outage_may_wait() -> None:
    with pytest.raises(BackendUnavailable):
        use(Waits, lambda driver: driver.close(), wait_limit=0.1)


def test_misuse_by_a_call_that_raises_is_reported_at_the_end() -> None:
    def work(driver: Quiet) -> None:
        with pytest.raises(ValueError, match="no"):
            driver.close()

    with pytest.raises(AssertionError, match=r"PrintsAndRaises\.close: promise 4 of Driver"):
        use(PrintsAndRaises, work)


def test_output_beside_a_process_that_writes_to_the_same_file_is_not_attributed() -> None:
    def work(driver: Quiet) -> None:
        with pytest.raises(ValueError, match="no"):
            driver.close()

    with subprocess.Popen(["sleep", "60"]) as other:
        use(PrintsAndRaises, work)
        other.kill()


def test_misuse_by_another_thread_is_reported_at_the_end() -> None:
    def work(driver: Quiet) -> None:
        thread = threading.Thread(target=driver.problems)
        thread.start()
        thread.join()

    with pytest.raises(AssertionError, match=r"ShowsSecret\.problems: promise 7 of Driver"):
        use(ShowsSecret, work)


def test_change_of_the_process_beside_a_call_of_another_thread_is_not_attributed() -> None:
    def work(driver: Quiet) -> None:
        thread = threading.Thread(target=driver.problems)
        thread.start()
        os.environ["NETFW_BROKEN_DRIVER"] = str(thread.ident)
        thread.join()

    with watched_calls():
        work(Waits())


def test_error_without_text_is_reported_at_the_end() -> None:
    def work(driver: Quiet) -> None:
        with pytest.raises(Conflict):
            driver.close()

    with pytest.raises(AssertionError, match=r"TextlessRefusal\.close: its Conflict has no text"):
        use(TextlessRefusal, work)


def test_error_without_text_in_an_outcome_is_wrong() -> None:
    update, errors = Update(drop=frozenset({"a"})), {"a": Conflict(" ")}
    found = result_errors("converge", (update,), Outcome(failed=errors), frozenset())
    assert list(found) == ["its Conflict has no text: say what is wrong and what to do"]


def test_suspended_watch_sees_nothing() -> None:
    def work(driver: Quiet) -> None:
        with unwatched():
            driver.problems()

    use(ShowsSecret, work)


def test_methods_are_as_before_when_the_watch_ends() -> None:
    before = vars(Driver)["problems"], vars(Quiet)["describe"]
    use(Quiet, lambda driver: driver.describe())
    assert (vars(Driver)["problems"], vars(Quiet)["describe"]) == before


def test_driver_without_constructor_takes_no_arguments() -> None:
    class Plain(Quiet):
        __init__ = object.__init__  # type: ignore[assignment]

    use(Quiet, lambda driver: None)  # the hook is installed
    with pytest.raises(TypeError, match="Plain"):
        Plain(1)  # type: ignore[arg-type]


def device(identity: int, **attributes: object) -> dict[str, object]:
    return {IDENTITY: identity, **attributes}


def test_changes_of_a_machine_are_described() -> None:
    before = MachineState({"a": device(1), "b": device(2), "c": device(3, up=True)})
    after = MachineState({"b": device(9), "c": device(3, up=False), "d": device(4)})
    assert list(machine_changes(before, after)) == [
        "a vanished",
        "d appeared",
        "b was made anew: 2 is now 9",
        "up of c was True and is False",
    ]
    assert not list(machine_changes(before, before))


def test_device_of_a_bridge_has_no_attributes() -> None:
    found = {"OVS bridge br-int": device(1), "device br-int": device(2), "device ovs-netdev": {}}
    state = without_switch_devices({**found, "device tap1": device(3)})
    assert state.objects == {
        "OVS bridge br-int": device(1),
        "device br-int": {},
        "device tap1": device(3),
    }


def test_return_to_a_former_state_is_no_effect() -> None:
    first = MachineState({"a": device(1)})
    second = MachineState({"a": device(1), "b": device(2)})
    assert not list(effects([first, second], first))
    assert list(effects([first, second], MachineState({"c": device(3)}))) == [
        "a vanished",
        "c appeared",
    ]


def test_growth_in_every_round_is_a_leak() -> None:
    before = HeldResources(Counter(socket=1), Counter(main=1), Counter())
    after = HeldResources(Counter(socket=4), Counter(main=1, helper=1), Counter())
    assert list(growth(before, after, 3)) == ["3 descriptors are left after 3 rounds: 3 x socket"]


def test_fingerprint_sees_what_was_added_deep_inside() -> None:
    value: dict[str, Any] = {"a": [1, {"b": {2}}]}
    before = fingerprint(value)
    assert fingerprint(value) == before
    value["a"][1]["b"].add(3)
    assert fingerprint(value) != before
