"""The suite of L2 extensions refuses every mutation of the extension for QoS."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from attrs import evolve
from oslo_config import cfg

from netfw import flows as of
from netfw.drivers.l2_extension import ExtendedPort, L2Extension
from netfw.drivers.values.pipeline_grant import Grant, GrantRequest
from netfw.drivers.values.switch_contribution import SwitchContribution
from netfw.model.values.ids import PortId
from netfw.testing.conformance.common.promises import proofs_in
from netfw.testing.conformance.l2_extension import L2ExtensionConformance
from netfw_drivers.ovs.qos.extension import QosExtension
from tests.conformance.common.suite_runner import run_tests
from tests.conformance.l2_extension.test_qos import RULES, view

pytestmark = [pytest.mark.fakes, pytest.mark.spec("L2-80")]


class Changed(QosExtension):
    """The extension with every flow replaced by ``change``."""

    def __init__(self) -> None:
        self.calls = 0

    def change(self, flow: of.Flow, key: PortId) -> of.Flow:
        return flow

    def contribute(
        self, key: PortId, value: ExtendedPort, grant: Grant
    ) -> SwitchContribution | None:
        self.calls += 1
        made = super().contribute(key, value, grant)
        if made is None:
            return None
        return evolve(made, flows=tuple(self.change(flow, key) for flow in made.flows))


class ChangingRequest(Changed):
    def grant_request(self) -> GrantRequest:
        return evolve(super().grant_request(), meters=5 if self.calls else 4)


class CountingCalls(Changed):
    def change(self, flow: of.Flow, key: PortId) -> of.Flow:
        return evolve(flow, priority=self.calls)


class ReadingFile(Changed):
    def change(self, flow: of.Flow, key: PortId) -> of.Flow:
        Path("/proc/self/comm").read_text()
        return flow


class ForeignOwner(Changed):
    def contribute(
        self, key: PortId, value: ExtendedPort, grant: Grant
    ) -> SwitchContribution | None:
        return SwitchContribution(owner="other")


class ForeignTable(Changed):
    def change(self, flow: of.Flow, key: PortId) -> of.Flow:
        return evolve(flow, table=58)


class ForeignCookie(Changed):
    def change(self, flow: of.Flow, key: PortId) -> of.Flow:
        return evolve(flow, cookie=flow.cookie ^ 1 << 40)


class ForeignJump(Changed):
    def change(self, flow: of.Flow, key: PortId) -> of.Flow:
        return evolve(flow, actions=(*flow.actions[:-1], of.goto(94)))


def _metered(flow: of.Flow, change: Callable[[of.Meter], of.Action]) -> of.Flow:
    first, *rest = flow.actions
    return evolve(flow, actions=(change(first), *rest)) if isinstance(first, of.Meter) else flow


class ForeignMeter(Changed):
    """Every port has the meters of port 1."""

    def change(self, flow: of.Flow, key: PortId) -> of.Flow:
        return _metered(flow, lambda meter: of.limited(of.BitLimit(1, 10, 10)))


class NoLimit(Changed):
    def change(self, flow: of.Flow, key: PortId) -> of.Flow:
        return _metered(flow, lambda meter: of.Meter(meter.id))


class SharedFlow(Changed):
    """The flows match the packets of all ports."""

    def change(self, flow: of.Flow, key: PortId) -> of.Flow:
        return evolve(flow, match=of.ANYTHING, actions=of.drop())


class Nothing(Changed):
    def contribute(
        self, key: PortId, value: ExtendedPort, grant: Grant
    ) -> SwitchContribution | None:
        return None


class Sleeping(Changed):
    def change(self, flow: of.Flow, key: PortId) -> of.Flow:
        time.sleep(0.1)
        return flow


class Printing(Changed):
    def change(self, flow: of.Flow, key: PortId) -> of.Flow:
        print(flow)  # noqa: T201
        return flow


class SharesClassState(Changed):
    """All extensions of the process count together."""

    def change(self, flow: of.Flow, key: PortId) -> of.Flow:
        type(self).latest = flow  # type: ignore[attr-defined]
        return flow


class LeakingThread(Changed):
    def contribute(
        self, key: PortId, value: ExtendedPort, grant: Grant
    ) -> SwitchContribution | None:
        threading.Thread(target=threading.Event().wait, args=(5,), daemon=True).start()
        return super().contribute(key, value, grant)


class RaisingProblems(Changed):
    def problems(self) -> tuple[str, ...]:
        raise RuntimeError("there is no switch")


class ReadingWhenMade(Changed):
    def __init__(self) -> None:
        super().__init__()
        Path("/proc/self/comm").read_text()


class ShowingPassword(Changed):
    OPTIONS = (cfg.StrOpt("api_password"),)


class MutatedConformance(L2ExtensionConformance):
    """The suite on mutations; ``extension`` is their class."""

    extension: type[Changed] = Changed

    def make_extension(self) -> L2Extension:
        return self.extension()

    def ports(self) -> Sequence[ExtendedPort]:
        return [view(2, *RULES), view(3, *RULES[:3])]


class TestUnchanged(MutatedConformance):
    """The extension without a change passes."""


@pytest.mark.parametrize(
    ("extension", "test"),
    [
        (ChangingRequest, "test_the_grant_request_is_constant"),
        (CountingCalls, "test_equal_ports_get_equal_contributions_in_any_order"),
        (ReadingFile, "test_contributions_are_made_without_input_or_output"),
        (ForeignOwner, "test_contributions_are_of_their_owner_and_of_the_right_types"),
        (ForeignTable, "test_flows_are_in_granted_tables_and_have_the_granted_cookie"),
        (ForeignCookie, "test_flows_are_in_granted_tables_and_have_the_granted_cookie"),
        (ForeignJump, "test_packets_go_on_in_granted_tables_or_behind_them"),
        (ForeignMeter, "test_meters_are_granted_ones_of_the_port_and_have_a_limit"),
        (NoLimit, "test_meters_are_granted_ones_of_the_port_and_have_a_limit"),
        (SharedFlow, "test_ports_share_no_flow"),
        (Nothing, "test_ports_share_no_flow"),
    ],
)
def test_mutation_is_refused(extension: type[Changed], test: str) -> None:
    suite = MutatedConformance()
    suite.extension = extension
    tests = [name for name, _ in proofs_in(L2ExtensionConformance)]
    assert test in run_tests(suite, tests).tests


@pytest.mark.parametrize(
    ("extension", "promise"),
    [
        (Sleeping, "promise 2 of AgentExtension"),
        (ReadingFile, "promise 2 of AgentExtension"),
        (ReadingWhenMade, "promise 1 of Driver"),
        (RaisingProblems, "promise 2 of Driver"),
        (LeakingThread, "promise 3 of Driver"),
        (Printing, "promise 4 of Driver"),
        (SharesClassState, "promise 6 of Driver"),
        (ShowingPassword, "promise 7 of Driver"),
    ],
)
def test_misuse_is_refused_by_the_name_of_the_promise(
    extension: type[Changed], promise: str
) -> None:
    suite = MutatedConformance()
    suite.extension = extension
    tests = [name for name, _ in proofs_in(L2ExtensionConformance)]
    said = run_tests(suite, tests).reasons.values()
    assert any(promise in each for each in said), list(said)
