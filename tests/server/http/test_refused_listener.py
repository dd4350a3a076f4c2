"""The listener of the API after its health endpoints got no thread."""

from __future__ import annotations

from pathlib import Path

import pytest

from netfw.cli.server.components import PROGRAM, ServerComponents, server_groups
from netfw.cli.server.listeners import Listeners
from netfw.conf.loader import load_config
from netfw.errors import BackendUnavailable
from netfw.http.listen_sockets import listen_unix
from tests.server.http.http_environment import ask
from tests.thread_limit import no_threads


def test_api_is_served_after_its_health_endpoints_were_refused_a_thread(tmp_path: Path) -> None:
    file = tmp_path / "netfw.conf"
    file.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n[server]\nserve = api\n")
    argv = ["--config-file", str(file)]
    path = tmp_path / "api.sock"
    with ServerComponents(load_config(PROGRAM, argv, server_groups(argv)).conf) as parts:
        parts.prepare()
        with Listeners(parts, {str(path): listen_unix(path)}) as listeners:
            with no_threads(), pytest.raises(BackendUnavailable, match=str(path)):
                listeners.serve_health_only("the database has not answered yet")
            listeners.open()
            assert ask(path)[0] == 200
