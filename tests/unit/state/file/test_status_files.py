"""What agents report stands in status files that people and scripts read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from netfw.drivers.values.reports import Heartbeat, RoleReport, StatusReport
from netfw.drivers.values.subscription import Service, Subscription
from netfw.errors import BackendUnavailable
from netfw.model.agent import Agent
from netfw.model.resource import Kind, Ref
from netfw.model.router import HaRole
from netfw.model.values.common_fields import Status
from netfw.model.values.ids import AgentId
from netfw.model.values.json_document import JsonDocument
from netfw.state.file import FileSource
from netfw.state.file.name_resolution import id_of
from tests import ROOT

TEXT = """
networks: [{name: n}]
routers: [{name: r}]
ports:
- {name: p, network: n, host: h1}
- {name: q, network: n, host: h2}
assignments: [{service: l3, host: h1, router: r}]
"""
P, Q, R = (Ref(Kind.PORT, id_of(Kind.PORT, name)) for name in ("p", "q", "r"))
ROUTER = Ref(Kind.ROUTER, id_of(Kind.ROUTER, "r"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "net.yaml"
    path.write_text(TEXT)
    return path


@pytest.fixture
def source(path: Path) -> Iterator[FileSource]:
    source = FileSource(path, debounce=0)
    source.refresh()
    yield source
    source.close()


def status_report(
    source: FileSource, target: Ref, host: str, status: Status, why: str = ""
) -> StatusReport:
    (revision,) = (
        item.revision
        for item in source.items()
        if getattr(item, "id", None) == target.id and hasattr(item, "revision")
    )
    return StatusReport(
        ref=target, revision=revision, host=host, service=Service.L2, status=status, reason=why
    )


def heartbeat(host: str) -> Heartbeat:
    agent = Agent(
        id=AgentId(id_of(Kind.AGENT, host)),
        agent_type="Open vSwitch agent",
        binary="netfw-ovs-agent",
        host=host,
        configurations=JsonDocument({"tunneling_ip": "192.0.2.1"}),
    )
    return Heartbeat(agent=agent, counts={"devices": 1})


def written(path: Path, host: str, service: str = "l2") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(f"{path}.status.{host}.{service}.json").read_text())
    return found


def lines(path: Path, host: str, service: str = "l2") -> dict[str, tuple[Any, ...]]:
    return {
        line["name"]: (line["status"], line["reason"])
        for line in written(path, host, service)["resources"]
    }


@pytest.mark.spec("DRV-21")
def test_each_service_of_each_host_has_a_file_of_its_own(path: Path, source: FileSource) -> None:
    source.report(
        [
            status_report(source, P, "h1", Status.ACTIVE),
            status_report(source, Q, "h2", Status.DEGRADED, "no such bridge"),
            heartbeat("h1"),
        ]
    )
    router = status_report(source, ROUTER, "h1", Status.ACTIVE)
    source.report([evolve(router, service=Service.L3)])
    assert lines(path, "h1") == {"p": ("ACTIVE", "")}
    assert lines(path, "h2") == {"q": ("DEGRADED", "no such bridge")}
    assert lines(path, "h1", "l3") == {"r": ("ACTIVE", "")}
    beat = written(path, "h1")["agents"]["netfw-ovs-agent"]
    assert beat["counts"] == {"devices": 1}
    assert beat["configurations"] == {"tunneling_ip": "192.0.2.1"}
    assert written(path, "h2")["agents"] == {}


@pytest.mark.spec("DRV-21")
def test_role_of_a_highly_available_router_is_beside_its_status(path: Path) -> None:
    path.write_text((ROOT / "samples/topologies/ha-router.yaml").read_text())
    source = FileSource(path, debounce=0)
    source.refresh()
    router = Ref(Kind.ROUTER, id_of(Kind.ROUTER, "edge"))
    status = evolve(status_report(source, router, "host1", Status.ACTIVE), service=Service.L3)
    role = RoleReport(ref=router, revision=1, host="host1", role=HaRole.STANDBY)
    source.report([status, role])
    found = written(path, "host1", "l3")["resources"]
    assert [(line.get("status"), line.get("role")) for line in found] == [
        ("ACTIVE", None), (None, "standby"),
    ]  # fmt: skip
    source.close()


def test_a_file_says_whether_it_is_about_what_is_wanted_now(path: Path, source: FileSource) -> None:
    source.report([status_report(source, P, "h1", Status.ACTIVE)])
    (line,) = written(path, "h1")["resources"]
    assert line["revision"] == line["wanted_revision"]
    path.write_text(TEXT.replace("host: h1}\n", "host: h1, admin_state_up: false}\n", 1))
    source.refresh()
    (line,) = written(path, "h1")["resources"]
    assert line["revision"] < line["wanted_revision"]
    source.report([status_report(source, P, "h1", Status.DOWN)])
    assert lines(path, "h1") == {"p": ("DOWN", "")}


def test_what_is_gone_or_moved_leaves_the_file(path: Path, source: FileSource) -> None:
    source.report(
        [
            status_report(source, P, "h1", Status.ACTIVE),
            status_report(source, Q, "h2", Status.ACTIVE),
        ]
    )
    path.write_text(TEXT.replace("- {name: p, network: n, host: h1}\n", "").replace("h2", "h1"))
    source.refresh()
    assert (lines(path, "h1"), lines(path, "h2")) == ({}, {})


def test_report_of_an_assignment_that_is_put_back_is_written_again(
    path: Path, source: FileSource
) -> None:
    report = evolve(status_report(source, ROUTER, "h1", Status.ACTIVE), service=Service.L3)
    source.report([report])
    path.write_text(TEXT.partition("assignments:")[0])
    source.refresh()
    assert lines(path, "h1", "l3") == {}
    path.write_text(TEXT)
    source.refresh()
    source.report([report])
    assert lines(path, "h1", "l3") == {"r": ("ACTIVE", "")}


def test_the_file_does_not_grow_with_the_reports(path: Path, source: FileSource) -> None:
    def report(number: int) -> int:
        status = (Status.ACTIVE, Status.DOWN)[number % 2]
        source.report([status_report(source, P, "h1", status, f"{number:04}"), heartbeat("h1")])
        return Path(f"{path}.status.h1.l2.json").stat().st_size

    sizes = [report(number) for number in range(20)]
    assert max(sizes) - min(sizes[:2]) < 10
    assert sorted(each.name for each in path.parent.iterdir()) == [
        "net.yaml",
        "net.yaml.status.h1.l2.json",
    ]


def test_the_status_says_which_file_is_in_force(path: Path, source: FileSource) -> None:
    list(source.snapshot(Subscription("h1", {Service.L2, Service.POPULATION})))
    source.flush()
    about = written(path, "h1")["source"]
    assert about["path"] == str(path)
    assert about["items"] == 5
    path.write_text(TEXT.replace("network: n,", "netwrk: n,"))
    source.refresh()
    after = written(path, "h1")["source"]
    assert after["digest"] == about["digest"]
    assert after["errors"][1] == {
        "file": str(path),
        "line": 5,
        "path": "ports[0].netwrk",
        "problem": "unknown attribute, did you mean 'network'?",
    }


def test_the_place_of_the_files_can_be_chosen(path: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    source = FileSource(path, tmp_path / "run" / "netfw", debounce=0)
    list(source.snapshot(Subscription("h1", {Service.L2})))
    source.flush()
    source.close()
    assert [each.name for each in (tmp_path / "run").iterdir()] == ["netfw.h1.l2.json"]


@pytest.mark.spec("DRV-40")
def test_reader_changes_no_status_file(path: Path, source: FileSource) -> None:
    source.report([status_report(source, P, "h1", Status.ACTIVE)])
    before = {each: each.read_bytes() for each in path.parent.iterdir()}
    reader = FileSource(path, debounce=0)
    for host in ("h1", "h2"):
        list(reader.snapshot(Subscription(host, {Service.L2})))
    path.touch()  # read once more
    reader.refresh()
    reader.close()
    assert {each: each.read_bytes() for each in path.parent.iterdir()} == before


def test_an_agent_that_watches_begins_its_file_anew(path: Path) -> None:
    Path(f"{path}.status.h1.l2.json").write_text("of a former agent")
    source = FileSource(path, debounce=0, poll=0.05)
    source.watch(Subscription("h1", {Service.L2}), lambda: None)
    source.close()
    assert written(path, "h1")["resources"] == []


def test_warnings_are_written_to_the_status_file(
    path: Path, source: FileSource, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_text(TEXT + "hosts: {h1: {}}\n")
    source.refresh()
    source.report([heartbeat("h1"), status_report(source, P, "h1", Status.ACTIVE)])
    about = written(path, "h1")["source"]
    assert about["errors"] == []
    assert about["warnings"] == [
        {
            "file": str(path),
            "line": 6,
            "path": "ports[1].host",
            "problem": "h2 is not among the hosts",
        }
    ]
    assert "is in force, with warnings" in caplog.text
    assert "error" not in caplog.text


def test_topology_errors_are_reported_and_cause_a_notification(
    path: Path, source: FileSource
) -> None:
    hints: list[int] = []
    stop = source.watch(Subscription("h1", {Service.L2}), lambda: hints.append(1))
    assert source.errors() == ()
    del hints[:]
    path.write_text("{ nonsense")
    (error,) = source.refresh()
    assert source.errors() == (str(error),)
    assert hints
    del hints[:]
    path.write_text(TEXT)
    source.refresh()
    assert source.errors() == ()
    assert hints
    stop()
    path.write_text("{ nonsense")
    del hints[:]
    source.refresh()
    assert not hints


def test_unwritable_status_file_fails_the_report(path: Path, tmp_path: Path) -> None:
    source = FileSource(path, tmp_path / "missing" / "netfw", debounce=0)
    source.refresh()
    report = status_report(source, P, "h1", Status.ACTIVE)
    with pytest.raises(BackendUnavailable, match=r"status file cannot be written.*missing"):
        source.report([report])
    (tmp_path / "missing").mkdir()
    source.report([report])
    assert os.listdir(tmp_path / "missing") == ["netfw.h1.l2.json"]


def test_people_can_read_it(path: Path, source: FileSource) -> None:
    source.report([status_report(source, P, "h1", Status.ACTIVE)])
    file = Path(f"{path}.status.h1.l2.json")
    assert file.stat().st_mode & 0o777 == 0o644
    assert '    {"kind": "port", "id": "' in file.read_text()
    assert len(file.read_text().splitlines()) < 25
