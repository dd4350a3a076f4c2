"""Settings of the server's plugins, from its configuration."""

from __future__ import annotations

from pathlib import Path

from attrs import fields_dict

from netfw.cli.server.components import own_groups, server_groups, settings_of
from netfw.conf import outbox
from netfw.conf.loader import load_config
from netfw.server.core.settings import Settings


def settings_with(directory: Path, text: str) -> Settings:
    path = directory / "server.conf"
    path.write_text(f"[DEFAULT]\nstate_path = {directory}\n{text}")
    files = ["--config-file", str(path)]
    return settings_of(load_config("netfw-server", files, server_groups(files)).conf)


def test_every_setting_has_an_option() -> None:
    names = {
        f"{group}_{option.dest}" if group == outbox.GROUP else option.dest
        for group, options in own_groups().items()
        for option in options
    }
    assert not fields_dict(Settings).keys() - names


def test_options_of_the_outbox_reach_it(tmp_path: Path) -> None:
    given = settings_with(
        tmp_path,
        "[outbox]\ndelivery_threads = 7\npoll_interval = 3\nlease_time = 40\n"
        "retry_interval_max = 9\n",
    )
    assert (given.outbox_delivery_threads, given.outbox_poll_interval) == (7, 3.0)
    assert (given.outbox_lease_time, given.outbox_retry_interval_max) == (40.0, 9.0)
