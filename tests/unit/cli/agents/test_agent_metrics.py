"""Metrics of an agent are those of its status."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from netfw.agents.common.agent import Counts
from netfw.agents.common.loop_tasks import LoopTask
from netfw.agents.common.status import AgentStatus
from netfw.cli.agents.metrics_file import MetricsFile

STATUS = AgentStatus(
    binary="netfw-ovs-agent",
    host="host1",
    ready=True,
    lag=1.5,
    degraded={"port 1": "refused"},
    passes=3,
    total=Counts(added=7, failed=1),
    counts={"ports": 4},
)


def values_of(path: Path) -> dict[tuple[str, str], float]:
    """Return the samples by name and last label."""
    return {
        (sample.name, (sample.labels.get("outcome") or sample.labels.get("kind") or "")): (
            sample.value
        )
        for family in text_string_to_metric_families(path.read_text())
        for sample in family.samples
    }


@pytest.mark.spec("DRV-43")
def test_metrics_hold_the_status(tmp_path: Path) -> None:
    path = tmp_path / "collector" / "agent.prom"
    file = MetricsFile(path)
    file(STATUS)
    found = values_of(path)
    assert found["netfw_agent_ready", ""] == 1
    assert found["netfw_agent_lag_seconds", ""] == 1.5
    assert found["netfw_agent_degraded", ""] == 1
    assert found["netfw_agent_passes_total", ""] == 3
    assert found["netfw_agent_keys_total", "added"] == 7
    assert found["netfw_agent_resources", "ports"] == 4
    assert 'agent="netfw-ovs-agent",host="host1"' in path.read_text()
    assert [each.name for each in path.parent.iterdir()] == ["agent.prom"]
    file.remove()
    assert not path.exists()


def test_links_of_others_in_the_directory_are_not_followed(tmp_path: Path) -> None:
    victim, path = tmp_path / "passwd", tmp_path / "agent.prom"
    victim.write_text("root")
    names = ["", f".{os.getpid()}", f".{os.getpid()}.{threading.get_ident()}"]
    for name in names:
        Path(f"{path}{name}").symlink_to(victim)
    MetricsFile(path)(STATUS)
    assert values_of(path)["netfw_agent_ready", ""] == 1
    assert not path.is_symlink()
    assert victim.read_text() == "root"


def test_collectors_may_read_the_file_whatever_the_umask(tmp_path: Path) -> None:
    former = os.umask(0o077)
    try:
        MetricsFile(tmp_path / "agent.prom")(STATUS)
    finally:
        os.umask(former)
    assert stat.S_IMODE((tmp_path / "agent.prom").stat().st_mode) == 0o644


def test_an_agent_that_waits_for_another_leaves_its_metrics(tmp_path: Path) -> None:
    path = tmp_path / "agent.prom"
    path.write_text("of another\n")
    file = MetricsFile(path)
    file(AgentStatus(errors={LoopTask.LOCK: "held by another"}))
    file.remove()
    assert path.read_text() == "of another\n"


def test_a_file_that_cannot_be_written_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    file = MetricsFile(tmp_path / "file" / "agent.prom")
    file(STATUS)
    file(STATUS)
    assert len([each for each in caplog.messages if "cannot be written" in each]) == 1
