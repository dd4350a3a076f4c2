"""Jobs that are joined before they start, and their priorities."""

import pytest

from netfw.agents.common.grouped_state import GroupedState
from netfw.agents.common.jobs.job_tracker import JobTracker
from netfw.agents.common.jobs.jobs import Job, JobPriority
from netfw.errors import BackendUnavailable
from netfw.plan import Outcome


def job(serial, put=None, drop=(), priority=JobPriority.CHANGE):
    put = put or {}
    serials = dict.fromkeys((*put, *drop), serial)
    return Job(group="g", put=put, drop=frozenset(drop), serials=serials, priority=priority)


class Values(GroupedState):
    """Desired values of keys ``group/name``, or ``group`` for the group's own key."""

    def __init__(self, **values):
        self.values = {name.replace("__", "/"): value for name, value in values.items()}

    def value(self, key):
        return self.values.get(key)

    def group(self, key, value):
        if "/" not in key:
            return key
        return None if value is None else value

    def dependents(self, key):
        return [other for other in self.values if other.startswith(f"{key}/")]

    def goes_first(self, group):
        return group == "first"

    apply = take_changed = take_touched = all_keys = reported = None


@pytest.mark.spec("DHCP-06", "L3-03")
def test_newer_job_wins_for_each_key_and_the_rest_stays():
    joined = job(1, put={"a": 1}, drop=["b"]).then(job(2, put={"b": 2}))
    assert (joined.put, joined.drop) == ({"a": 1, "b": 2}, frozenset())
    assert joined.serials == {"a": 1, "b": 2}
    joined = joined.then(job(3, drop=["a"]))
    assert (joined.put, joined.drop) == ({"b": 2}, {"a"})
    assert set(joined) == {"a", "b"}
    newest = joined.then(job(4, put={"b": 5}))
    assert (newest.put, newest.serials["b"]) == ({"b": 5}, 4)


def test_joined_job_has_the_better_priority_of_both():
    background, change = job(1, priority=JobPriority.BACKGROUND), job(2)
    assert background.then(change).priority is JobPriority.CHANGE
    assert change.then(background).priority is JobPriority.CHANGE


@pytest.mark.spec("L3-03")
def test_priority_of_a_job_follows_from_why_its_keys_were_requested():
    desired, tracker = Values(a=1, b=1, c=1), JobTracker()
    tracker.request({"a", "b"}, routine=True)
    tracker.request({"b", "c", "gone"})
    priorities = {job.group: job.priority for job in tracker.take_jobs(desired)}
    assert priorities == {
        "a": JobPriority.BACKGROUND,
        "b": JobPriority.CHANGE,
        "c": JobPriority.CHANGE,
        "gone": JobPriority.REMOVAL,
    }


def test_job_that_others_may_wait_for_is_submitted_first():
    names = [*"abcdefgh", "first"]
    desired, tracker = Values(**dict.fromkeys(names, 1)), JobTracker()
    tracker.request(names, routine=True)
    found = [job.group for job in tracker.take_jobs(desired)]
    assert (found[0], sorted(found)) == ("first", sorted(names))


def test_retried_key_that_is_requested_as_routine_stays_so():
    desired, tracker = Values(a=1), JobTracker()
    tracker.request({"a"}, routine=True)
    tracker.retry({"a"})
    (found,) = tracker.take_jobs(desired)
    assert found.priority is JobPriority.BACKGROUND


def test_key_that_changes_its_group_is_dropped_there_before_it_is_put_elsewhere():
    desired, tracker = Values(a=1, b=1, x__1="a"), JobTracker()
    tracker.request({"x/1"})
    (first,) = tracker.take_jobs(desired)
    tracker.record(first, Outcome(done=frozenset({"x/1"})))
    desired.values["x/1"] = "b"
    tracker.request({"x/1"})
    (second,) = tracker.take_jobs(desired)
    assert (second.group, second.drop) == ("a", {"x/1"})
    tracker.record(second, Outcome(done=frozenset({"x/1"})))
    (third,) = tracker.take_jobs(desired)
    assert (third.group, third.put) == ("b", {"x/1": "b"})


def test_key_that_waits_comes_with_the_key_it_depends_on():
    desired, tracker = Values(a=1, a__1="a"), JobTracker()
    tracker.request({"a"})
    (found,) = tracker.take_jobs(desired)
    assert set(found) == {"a", "a/1"}
    tracker.record(found, Outcome(done=frozenset({"a", "a/1"})))
    tracker.take_results()
    tracker.request({"a"})
    (found,) = tracker.take_jobs(desired)
    assert set(found) == {"a"}, "what is served already does not come along"


def test_outcome_of_an_outdated_job_is_not_the_result_of_its_key():
    desired, tracker = Values(a=1), JobTracker()
    tracker.request({"a"})
    (first,) = tracker.take_jobs(desired)
    tracker.request({"a"})
    (second,) = tracker.take_jobs(desired)
    tracker.record(first, Outcome(failed={"a": BackendUnavailable("no")}))
    assert tracker.is_pending("a")
    assert not set(tracker.take_results())
    tracker.record(second, Outcome(done=frozenset({"a"})))
    assert tracker.take_results().done == {"a"}
