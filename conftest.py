"""Record the outcomes of tests that prove items of docs/spec, for `make spec`."""

from __future__ import annotations

import fcntl
import gc
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

REAL_FOLDERS = (
    "tests/lab/",
    "tests/conformance/",
    "tests/system/",
    "tests/server/",  # on a real database, a file
    "samples/",
)
RESULTS = ".netfw/spec-results.json"

gc.disable()  # until the tests are collected: modules are no garbage

settings.register_profile("netfw", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("netfw")  # how fast examples are made is up to what else the machine does


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--spec-collect", metavar="FILE", help="write the marked tests to FILE")
    parser.addoption("--short", action="store_true", help="leave out the tests marked nightly")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--short"):
        nightly = [item for item in items if _is_nightly(item)]
        config.hook.pytest_deselected(items=nightly)
        items[:] = [item for item in items if not _is_nightly(item)]


def _is_nightly(item: pytest.Item) -> bool:
    return item.get_closest_marker("nightly") is not None


def _ids(item: pytest.Item) -> list[str]:
    return sorted({spec_id for marker in item.iter_markers("spec") for spec_id in marker.args})


def _is_real(item: pytest.Item) -> bool:
    if item.get_closest_marker("fakes") is not None:
        return False
    return item.nodeid.startswith(REAL_FOLDERS) or item.get_closest_marker("real") is not None


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.freeze()  # no collection goes over the modules and the collected tests again
    gc.enable()
    if target := session.config.getoption("--spec-collect"):
        marked = {
            item.nodeid: {
                "ids": _ids(item),
                "real": _is_real(item),
                "nightly": _is_nightly(item),
            }
            for item in session.items
            if _ids(item)
        }
        Path(target).parent.mkdir(exist_ok=True)
        Path(target).write_text(json.dumps(marked))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> object:
    report = yield
    if _ids(item) and (report.when == "call" or report.outcome != "passed"):
        item.config.stash.setdefault(_OUTCOMES, {})[item.nodeid] = report.outcome
    return report


_OUTCOMES = pytest.StashKey[dict[str, str]]()


def pytest_sessionfinish(session: pytest.Session) -> None:
    outcomes = session.config.stash.get(_OUTCOMES, {})
    if not outcomes:
        return
    path = session.config.rootpath / RESULTS
    path.parent.mkdir(exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several runs may end at the same time
        former = json.loads(path.read_text()) if path.exists() else {}
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps({**former, **outcomes}, indent=0, sort_keys=True))
        fresh.replace(path)
