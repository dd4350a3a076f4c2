"""A log line of a pass names the first keys that wait, with the reason."""

from netfw.agents.common.agent import UNDER_WAY, ConvergeResult, Counts
from netfw.agents.common.pass_log import log_pass
from netfw.plan import Outcome


def logged(caplog, **waiting):
    caplog.set_level("INFO")
    counts = Counts(waiting=len(waiting))
    log_pass(7, ConvergeResult(outcome=Outcome(waiting=waiting), counts=counts))
    return caplog.messages


def test_keys_that_wait_are_named_with_the_reason(caplog):
    assert logged(caplog, r1="no HA port", r2="no gateway") == [
        "pass 7: 2 waiting: r1 (no HA port), r2 (no gateway)"
    ]


def test_only_the_first_keys_that_wait_are_named(caplog):
    (line,) = logged(caplog, **{f"r{n}": "no HA port" for n in range(1000)})
    assert line.endswith("r2 (no HA port) and 997 more")
    assert len(line) < 100


def test_keys_whose_job_is_under_way_are_not_named(caplog):
    (line,) = logged(caplog, r1=UNDER_WAY, r2="no gateway")
    assert "r1" not in line
    assert "r2 (no gateway)" in line
