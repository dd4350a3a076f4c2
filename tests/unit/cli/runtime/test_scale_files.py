"""The configuration files of samples/scale, as server and agents read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from netfw.cli.agents.dhcp import dhcp_groups
from netfw.cli.agents.l2 import l2_groups
from netfw.cli.agents.l3 import l3_groups
from netfw.cli.agents.metadata_components import metadata_groups
from netfw.cli.server.components import server_groups
from netfw.conf.loader import Groups, load_config, unknown_options
from tests import ROOT

FILES = ROOT / "samples/scale"


@pytest.mark.spec("DRV-48")
@pytest.mark.parametrize(
    ("file", "groups"),
    [
        ("server.conf", server_groups),
        *(("agent.conf", each) for each in (l2_groups, dhcp_groups, l3_groups, metadata_groups)),
    ],
)
def test_files_of_samples_scale_have_known_options_and_allowed_values(
    file: str, groups: Callable[[Sequence[str]], Groups]
) -> None:
    argv = ["--config-file", str(FILES / file)]
    conf = load_config("netfw", argv, groups(argv)).conf
    assert list(unknown_options(conf)) == []
    assert conf.oslo.transport_url.startswith("rabbit://")
