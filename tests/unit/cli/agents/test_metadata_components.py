"""The metadata agent, put together from its configuration."""

from __future__ import annotations

import pwd
from pathlib import Path
from typing import NoReturn

import pytest

from netfw.cli.agents.metadata_components import MetadataAgentComponents, metadata_groups
from netfw.conf.loader import load_config
from netfw.conf.metadata_agent import GROUP, PROGRAM

CONF = """
[DEFAULT]
host = here
state_path = {0}
[agent]
state_source = file
[file]
path = {0}/topology.yaml
[metadata]
metadata_proxy_socket = {0}/metadata.sock
metadata_proxy_user = daemon
"""


def forget_user(name: str) -> NoReturn:
    raise KeyError(f"getpwnam(): name not found: {name!r}")


def test_a_reload_that_is_refused_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "agent.conf"
    path.write_text(CONF.format(tmp_path))
    files = ["--config-file", str(path)]
    conf = load_config(PROGRAM, files, metadata_groups(files)).conf
    with MetadataAgentComponents(conf) as parts:
        relay = parts._relay
        former = relay.policy, relay.directory.policy, parts.agent.settings
        monkeypatch.setattr(pwd, "getpwnam", forget_user)
        conf.set_override("nova_metadata_host", "192.0.2.9", group=GROUP)
        conf.set_override("metadata_cache_seconds", 77.0, group=GROUP)
        parts.reload()
        assert (relay.policy, relay.directory.policy, parts.agent.settings) == former
    assert "stays as it was: [metadata] metadata_proxy_user 'daemon'" in caplog.text
