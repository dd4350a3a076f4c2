"""The status file of an agent that waits for another one."""

import json
import os
import subprocess
import time

import pytest

from netfw.agents.common.status import AgentStatus, StatusFile

WAITS = AgentStatus(
    binary="agent", host="host", errors={"the lock against a second agent": "process 7 works here"}
)
READY = AgentStatus(binary="agent", host="host", ready=True)


def test_agent_that_waits_for_the_lock_leaves_the_file_of_a_running_one(tmp_path):
    path = tmp_path / "agent.json"
    path.write_text(json.dumps({"pid": os.getppid(), "ready": True}))
    file = StatusFile(path)
    file(WAITS)
    file.remove()
    assert json.loads(path.read_text())["pid"] == os.getppid()
    file(READY)
    assert json.loads(path.read_text())["pid"] == os.getpid()


def test_each_error_has_the_time_at_which_it_arose(tmp_path):
    path = tmp_path / "agent.json"
    file = StatusFile(path)

    def since(*names):
        file(AgentStatus(errors=dict.fromkeys(names, "it is away")))
        found = json.loads(path.read_text())
        return found["errors_since"], found["written_at"]

    first, began = since("the source")
    assert first == {"the source": began}
    time.sleep(0.002)
    both, later = since("the source", "the heartbeat")
    assert both == {"the source": began, "the heartbeat": later}
    assert since()[0] == {}
    again, last = since("the source")
    assert again == {"the source": last}


@pytest.mark.parametrize("content", [None, "", "[]", '{"pid": "x"}', "{}", "DEAD", "OWN"])
def test_agent_that_waits_for_the_lock_writes_a_file_that_no_other_running_one_has(
    tmp_path, content
):
    path = tmp_path / "agent.json"
    process = subprocess.Popen(["true"])
    process.wait()
    pids = {"DEAD": process.pid, "OWN": os.getpid()}
    if content is not None:
        path.write_text(json.dumps({"pid": pids[content]}) if content in pids else content)
    StatusFile(path)(WAITS)
    assert json.loads(path.read_text())["errors"] == WAITS.errors
