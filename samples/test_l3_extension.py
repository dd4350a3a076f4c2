"""The sample L3 extension passes the suite of its contract, and the real agent loads it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from netfw.drivers.l3_extension import ExtendedRouter, L3Extension
from netfw.model.router import Router
from netfw.testing.conformance import L3ExtensionConformance
from netfw.testing.conformance.router.factories import make_site

SAMPLE = Path(__file__).parent / "l3_extension"
LOAD = """
import sys
from netfw.cli.agents.l3 import PROGRAM, L3AgentComponents, l3_groups
from netfw.conf.loader import load_config
with L3AgentComponents(load_config(PROGRAM, sys.argv[1:], l3_groups(sys.argv[1:])).conf) as parts:
    print(parts)
"""


@pytest.mark.spec("DRV-33")
class TestRefuseSmtp(L3ExtensionConformance):
    """Two routers, one of which has the tag."""

    sites = make_site(), make_site()

    @pytest.fixture(autouse=True)
    def _path(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.syspath_prepend(str(SAMPLE / "src"))
        yield
        for name in [name for name in sys.modules if name.startswith("acme_smtp")]:
            del sys.modules[name]

    def make_extension(self) -> L3Extension:
        from acme_smtp import RefuseSmtp

        made: L3Extension = RefuseSmtp(IPv4Address("192.0.2.25"))
        return made

    def routers(self) -> Sequence[ExtendedRouter]:
        tags: tuple[frozenset[str], ...] = frozenset({"no-smtp"}), frozenset()
        return [
            ExtendedRouter(router=Router(id=site.router, tags=own), state=site.state)
            for site, own in zip(self.sites, tags, strict=True)
        ]

    def test_only_the_router_with_the_tag_is_extended(self) -> None:
        made = self.contribute(self.make_extension(), self.routers())
        tagged, other = (made[site.router] for site in self.sites)
        assert other is None
        assert tagged is not None
        assert [rule.words[-1] for rule in tagged.rules] == ["RETURN", "tcp-reset", "tcp-reset"]


@pytest.mark.spec("L3-07", "DRV-33")
def test_the_agent_loads_it_by_name(tmp_path: Path) -> None:
    metadata = tmp_path / "site" / "acme_smtp-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-smtp\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[netfw.l3_extensions]\nrefuse_smtp = acme_smtp:RefuseSmtp\n"
    )
    conf = tmp_path / "agent.conf"
    conf.write_text(
        f"[DEFAULT]\nhost = here\nstate_path = {tmp_path}\n[agent]\ninterface_driver = null\n"
        "extensions = port_forwarding, refuse_smtp\n[refuse_smtp]\nrelay = 192.0.2.25\n"
        f"[file]\npath = {tmp_path}/topology.yaml\n"
    )
    path = os.pathsep.join([str(tmp_path / "site"), str(SAMPLE / "src")])
    done = subprocess.run(
        [sys.executable, "-c", LOAD, "--config-file", str(conf)],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.strip().endswith("extensions port_forwarding, refuse_smtp"), done.stderr
