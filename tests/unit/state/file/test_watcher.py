"""A file is read when its writer is done; what is wrong with it changes nothing."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from netfw.drivers.values.agent_requests import EnsureDhcpPort, FindPorts, ReleaseDhcpPort
from netfw.drivers.values.subscription import Service, Subscription
from netfw.errors import BackendUnavailable, ConfigError, CursorLost, NotFound, NotSupported
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref
from netfw.model.values.ids import NetworkId, SubnetId
from netfw.state.file import FileSource
from netfw.state.file.file_reader import read, stat_files
from netfw.state.file.name_resolution import id_of
from netfw.state.file.watcher import TopologyWatcher
from netfw.testing.lab.wait import wait_until

HERE = Subscription("h1", {Service.L2})
ONE = "networks: [{name: n}]\nports: [{name: p, network: n, host: h1}]\n"
TWO = ONE + "segments: [{name: s, network: n, network_type: local}]\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "net.yaml"
    path.write_text(ONE)
    return path


@pytest.fixture
def source(path: Path) -> Iterator[FileSource]:
    source = FileSource(path, debounce=0, poll=0.02)
    source.flush()  # as somebody who reports: it writes status files from now on
    yield source
    source.close()


def replace(path: Path, text: str) -> None:
    beside = path.with_name("beside")
    beside.write_text(text)
    os.replace(beside, path)


def names(source: FileSource) -> set[str]:
    """Return the names in a snapshot, after the file was read."""
    return {str(getattr(each, "name", "")) for page in source.snapshot(HERE) for each in page.put}


def status(path: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(Path(f"{path}.status.h1.l2.json").read_text())
    return found


def problems(path: Path) -> list[str]:
    source = status(path)["source"]
    assert isinstance(source, dict)
    return [error["problem"] for error in source["errors"]]


class FakeTime:
    now = 0.0

    def clock(self) -> float:
        return self.now


def remove(path: Path) -> str:
    path.unlink()
    return "cannot be read: No such file or directory"


def empty(path: Path) -> str:
    path.write_text("")
    return "is empty; it is taken for half-written (write {} to state nothing)"


def cut(path: Path) -> str:
    path.write_text(ONE[:-5])
    return "is no YAML: did not find expected node content, while parsing a flow node"


def misspell(path: Path) -> str:
    replace(path, ONE.replace("network: n,", "network: m,"))
    return "there is no network 'm' in the file"


def become_a_pipe(path: Path) -> str:
    path.unlink()
    os.mkfifo(path)
    return "is no regular file"


def become_an_empty_directory(path: Path) -> str:
    path.unlink()
    path.mkdir()
    return "is a directory without a file that ends in .yaml, .yml, .json"


def point_at_itself(path: Path) -> str:
    path.unlink()
    path.symlink_to(path)
    return "cannot be read: Too many levels of symbolic links"


@pytest.mark.spec("DRV-21")
@pytest.mark.parametrize(
    "harm",
    [remove, empty, cut, misspell, become_a_pipe, become_an_empty_directory, point_at_itself],
)
def test_an_invalid_file_changes_nothing_and_is_visible(
    harm: Callable[[Path], str], path: Path, source: FileSource, caplog: pytest.LogCaptureFixture
) -> None:
    before = names(source)
    *_, page = source.snapshot(HERE)
    problem = harm(path)
    with caplog.at_level(logging.ERROR):
        assert names(source) == before
    assert source.changes(HERE, page.cursor).put == ()
    assert problems(path) == [problem]
    assert problem in caplog.text
    assert source.problems() == (f"{source.refresh()[0]}",)
    # once is enough
    caplog.clear()
    names(source)
    assert not caplog.records


def test_a_good_file_is_in_force_again(
    path: Path, source: FileSource, caplog: pytest.LogCaptureFixture
) -> None:
    names(source)
    path.unlink()
    names(source)
    replace(path, TWO)
    with caplog.at_level(logging.INFO):
        assert names(source) == {"n", "p", "s"}
    assert problems(path) == []
    assert f"{path}: recovered" in caplog.text


def test_a_file_is_read_only_after_it_stayed_the_same_for_a_while(path: Path) -> None:
    fake = FakeTime()
    watched = TopologyWatcher(str(path), debounce=1.0, clock=fake.clock, sleep=lambda _: None)
    assert watched.load_stable().topology.errors == ()
    half = "networks: [{name: n}]\n"  # good YAML, and without it every port would go
    with path.open("w") as file:
        for part in (half, "ports:\n", "- {name: p, network: n, host: h1}\n"):
            file.write(part)
            file.flush()
            fake.now += 0.9
            assert watched.poll() is None
            assert watched.changing
    fake.now += 0.9
    assert watched.poll() is None
    fake.now += 0.2
    reading = watched.poll()
    assert reading is not None
    assert len(reading.topology.items) == 2
    assert not watched.changing


def test_a_first_reading_waits_for_the_writer_too(path: Path) -> None:
    def write_on(_: float) -> None:
        with path.open("a") as file:
            file.write("# more\n")

    watched = TopologyWatcher(str(path), debounce=1.0, sleep=write_on)
    assert [error.problem for error in watched.load_stable().topology.errors] == [
        "is being written"
    ]


def test_a_directory_that_is_being_filled_is_not_taken_at_first(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("networks: [{name: n}]")
    watched = TopologyWatcher(
        str(tmp_path), debounce=1.0, sleep=lambda _: replace(tmp_path / "b.yaml", "ports: []")
    )
    assert [error.problem for error in watched.load_stable().topology.errors] == [
        "is being written"
    ]


def test_a_file_that_changed_between_look_and_read_is_not_taken(path: Path) -> None:
    seen = stat_files(str(path))
    path.write_text(TWO)
    assert read(seen).torn
    assert not read(stat_files(str(path))).torn


def test_names_that_are_no_unicode_and_paths_that_are_none_are_no_harm(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.yaml")).write_text("ports: 1")
    (problem,) = FileSource(tmp_path, tmp_path / "status").problems()
    assert problem.endswith("\\udcff.yaml:1: ports: not a list: 1")
    (problem,) = FileSource("a\0b").problems()
    assert problem.startswith("a\0b: cannot be read: ")
    assert "embedded null" in problem  # how it goes on differs between releases of Python


def test_a_flipped_link_is_a_change(tmp_path: Path) -> None:
    for name, text in (("a", ONE), ("b", TWO)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "net.yaml").write_text(text)
    (tmp_path / "current").symlink_to("a")
    (tmp_path / "net.yaml").symlink_to("current/net.yaml")
    source = FileSource(tmp_path / "net.yaml", debounce=0)
    assert names(source) == {"n", "p"}
    (tmp_path / "next").symlink_to("b")
    os.replace(tmp_path / "next", tmp_path / "current")
    assert names(source) == {"n", "p", "s"}


def test_a_directory_is_all_of_its_files(tmp_path: Path) -> None:
    place = tmp_path / "net.d"
    place.mkdir()
    (place / "10-net.yaml").write_text("networks: [{name: n}]")
    (place / "20-port.json").write_text('{"ports": [{"name": "p", "network": "n", "host": "h1"}]}')
    for ignored in ("README", ".hidden.yaml", "x.yaml~", "x.yaml.status.h1.l2.json"):
        (place / ignored).write_text("nonsense: [")
    source = FileSource(place, debounce=0)
    assert names(source) == {"n", "p"}
    (place / "30-more.yml").write_text("ports: [{name: q, network: n, host: h1}]")
    assert names(source) == {"n", "p", "q"}
    (place / "20-port.json").unlink()
    assert names(source) == {"n", "q"}
    source.flush()
    assert Path(f"{place}.status.h1.l2.json").exists()


def test_before_a_first_good_file_the_source_is_out_of_reach(path: Path) -> None:
    path.write_text("ports: 1")
    source = FileSource(path, debounce=0)
    message = r"net.yaml:1: ports: not a list: 1"
    with pytest.raises(BackendUnavailable, match=message):
        list(source.snapshot(HERE))
    with pytest.raises(BackendUnavailable, match=message):
        source.request(FindPorts(address="10.0.0.1", network=NetworkId(id_of(Kind.NETWORK, "n"))))
    source.flush()
    assert problems(path) == ["not a list: 1"]
    replace(path, ONE)
    assert names(source) == {"n", "p"}


def test_watch_is_notified_of_a_change(path: Path) -> None:
    source = FileSource(path, poll=0.02, debounce=0.02)
    *_, page = source.snapshot(HERE)
    hinted = threading.Event()
    stop = source.watch(HERE, hinted.set)
    replace(path, TWO)
    assert hinted.wait(60)
    (put,) = (
        each for each in source.changes(HERE, page.cursor).put if not isinstance(each, Network)
    )
    assert put.id == id_of(Kind.SEGMENT, "s")
    stop()
    source.close()
    source.close()


def test_closing_ends_the_looking(path: Path) -> None:
    source = FileSource(path, poll=0.02, debounce=0)
    source.watch(HERE, lambda: None)
    wait_until(lambda: bool(source.items()))
    source.close()
    assert "netfw-file-source" not in {thread.name for thread in threading.enumerate()}


def test_an_unchanged_resource_keeps_its_revision_and_a_changed_one_gets_a_higher(
    path: Path, source: FileSource
) -> None:
    def revisions() -> dict[str, int]:
        names(source)
        return {type(each).__name__: each.revision for each in source.items()}  # type: ignore[union-attr]

    first = revisions()
    replace(path, ONE.replace("host: h1", "host: h1, admin_state_up: false"))
    second = revisions()
    assert second["Network"] == first["Network"]
    assert second["Port"] > first["Port"]
    replace(path, ONE)
    assert revisions()["Port"] > second["Port"]


def test_after_a_restart_old_cursors_are_lost_and_no_revision_is_lower(path: Path) -> None:
    before = FileSource(path, debounce=0)
    *_, page = before.snapshot(HERE)
    for number in range(20):
        replace(path, ONE.replace("host: h1", f"host: h1, description: '{number}'"))
        before.refresh()
    after = FileSource(path, debounce=0)
    with pytest.raises(CursorLost):
        after.changes(HERE, page.cursor)
    old, new = ({each.id: each.revision for each in source.items()} for source in (before, after))  # type: ignore[union-attr]
    assert all(new[id] > old[id] for id in old)


def test_two_sources_in_one_process_do_not_know_each_other(tmp_path: Path) -> None:
    for name, text in (("a.yaml", ONE), ("b.yaml", TWO)):
        (tmp_path / name).write_text(text)
    a, b = (FileSource(tmp_path / name, debounce=0) for name in ("a.yaml", "b.yaml"))
    assert (names(a), names(b)) == ({"n", "p"}, {"n", "p", "s"})


def test_a_dhcp_port_is_what_the_file_states(path: Path, source: FileSource) -> None:
    network = NetworkId(id_of(Kind.NETWORK, "n"))
    subnet = SubnetId(id_of(Kind.SUBNET, "s"))
    request = EnsureDhcpPort(network=network, host="h1", subnets=frozenset({subnet}))
    with pytest.raises(NotSupported, match="a port on h1 with device_owner network:dhcp"):
        source.request(request)
    replace(
        path,
        ONE
        + "- {name: d, network: n, host: h1, device_owner: 'network:dhcp', fixed_ips: [10.0.0.2]}\n"
        + "subnets: [{name: s, network: n, cidr: 10.0.0.0/24}]\n",
    )
    path.write_text(path.read_text().replace("[{name: p, network: n, host: h1}]", ""))
    assert source.refresh() == ()
    port = source.request(request)
    assert isinstance(port, Port)
    assert port.name == "d"
    source.request(ReleaseDhcpPort(network=network, host="h1"))
    assert source.request(request) == port
    elsewhere = NetworkId(id_of(Kind.NETWORK, "other"))
    with pytest.raises(NotFound):
        source.request(EnsureDhcpPort(network=elsewhere, host="h1", subnets=frozenset()))


def test_making_a_source_touches_nothing(tmp_path: Path) -> None:
    FileSource(tmp_path / "not" / "there").close()
    assert list(tmp_path.iterdir()) == []


def test_a_source_needs_a_path() -> None:
    options = {"path": "", "status_path": None, "poll": 1.0, "debounce": 1.0}
    with pytest.raises(ConfigError, match="needs the path"):
        FileSource.from_conf(options, None)  # type: ignore[arg-type]


def test_looking_costs_next_to_nothing(path: Path) -> None:
    watched = TopologyWatcher(str(path), debounce=0, sleep=lambda _: None)
    watched.load_stable()
    began = time.process_time()
    for _ in range(1000):
        assert watched.poll() is None
    # at two looks a second: well under a tenth of a percent of a core
    assert time.process_time() - began < 0.5


def test_what_is_stated_is_the_port(source: FileSource) -> None:
    names(source)
    assert Ref(Kind.PORT, id_of(Kind.PORT, "p")).id in {each.id for each in source.items()}  # type: ignore[union-attr]
