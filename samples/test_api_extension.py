"""The sample resource in a real server, as its README says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from netfw.testing.lab import sandbox
from netfw.testing.lab.services.server import PrivateNetfw

SAMPLE = Path(__file__).parent / "api_extension"
MEMBER = {"X-Roles": "member", "X-Project-Id": "p", "X-User-Id": "u"}
OTHER = {"X-Roles": "member", "X-Project-Id": "q", "X-User-Id": "v"}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PrivateNetfw]:
    sandbox.require()
    site = tmp_path / "site"
    info = site / "acme_lamps-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-lamps\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[netfw.api_extensions]\nlamps = acme_lamps.lamps:LampExtension\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), str(SAMPLE / "src")]))
    options = {"DEFAULT": {"api_extensions": "lamps"}}
    with PrivateNetfw(tmp_path / "server", options) as running:
        yield running


def test_the_sample_passes_the_suite_of_api_extensions() -> None:
    path = os.pathsep.join(entry for entry in [str(SAMPLE / "src"), *sys.path] if entry)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "-p", "no:cacheprovider", "tests"],
        cwd=SAMPLE,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "15 passed" in done.stdout


@pytest.mark.spec("API-12")
def test_a_declaration_is_a_resource_with_validation_policy_storage_and_quota(
    server: PrivateNetfw,
) -> None:
    def make(headers: dict[str, str], **lamp: object) -> tuple[int, dict[str, dict[str, object]]]:
        return server.request("POST", "/v2.0/lamps", {"lamp": lamp}, headers)

    status, answer = make(MEMBER, name="desk", brightness=40)
    assert status == 201
    lamp = answer["lamp"]
    assert (lamp["brightness"], lamp["project_id"], lamp["revision_number"]) == (40, "p", 1)
    path = f"/v2.0/lamps/{lamp['id']}"
    status, answer = make(MEMBER, brightness=101)
    assert (status, "101 is not between" in str(answer)) == (400, True)
    assert make(MEMBER, colour="red")[0] == 400
    assert make(MEMBER, rack="7")[0] == 403
    assert server.request("GET", path, headers=OTHER)[0] == 404
    assert server.request("DELETE", path, headers=OTHER)[0] == 404
    changed = server.request("PUT", path, {"lamp": {"brightness": 7}}, MEMBER)[1]["lamp"]
    assert (changed["brightness"], changed["name"], changed["revision_number"]) == (7, "desk", 2)
    late = {**MEMBER, "If-Match": "revision_number=1"}
    assert server.request("PUT", path, {"lamp": {"brightness": 8}}, late)[0] == 412
    assert [make(MEMBER)[0] for _ in range(5)] == [201, 201, 201, 201, 409]
    _, answer = server.request("GET", "/v2.0/lamps?brightness=7&fields=name", headers=MEMBER)
    assert answer["lamps"] == [{"name": "desk"}]
    _check_common_features(server, path)
    changed = server.request("GET", path, headers=MEMBER)[1]["lamp"]
    server.kill()
    server.start()
    assert server.request("GET", path, headers=MEMBER)[1]["lamp"] == changed
    assert server.request("DELETE", path, headers=MEMBER)[0] == 204
    _, answer = server.request("GET", "/v2.0/extensions/acme-lamps", headers=MEMBER)
    assert answer["extension"]["name"] == "Lamps"


def _check_common_features(server: PrivateNetfw, path: str) -> None:
    """Check tags, quotas and admin-only attributes, which are as those of any resource."""
    assert server.request("PUT", f"{path}/tags/gold", headers=MEMBER)[0] == 201
    _, answer = server.request("GET", "/v2.0/lamps?tags=gold&fields=name", headers=MEMBER)
    assert answer["lamps"] == [{"name": "desk"}]
    changed = server.request("PUT", path, {"lamp": {"rack": "r7"}})[1]["lamp"]
    assert changed["rack"] == "r7"
    assert "rack" not in server.request("GET", path, headers=MEMBER)[1]["lamp"]
    assert server.request("GET", "/v2.0/lamps?rack=r7", headers=MEMBER)[0] == 400
    quota = server.request("PUT", "/v2.0/quotas/p", {"quota": {"lamp": 7}})[1]["quota"]
    assert quota["lamp"] == 7
    details = server.request("GET", "/v2.0/quotas/p/details", headers=MEMBER)[1]["quota"]
    assert details["lamp"] == {"limit": 7, "used": 5, "reserved": 0}
