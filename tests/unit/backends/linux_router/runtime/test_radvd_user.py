"""The user that radvd runs as, when the driver is made."""

from __future__ import annotations

import pwd
from typing import Any, cast

import pytest

from netfw.errors import ConfigError
from netfw_drivers.linux_router.driver import LinuxRouterDriver
from netfw_drivers.linux_router.runtime.radvd_runner import check_radvd_user


def test_a_user_that_does_not_exist_is_refused_at_the_start() -> None:
    defaults = {option.dest: option.default for option in LinuxRouterDriver.OPTIONS}
    options = {**defaults, "router_confs": "/nowhere", "radvd_user": "no-such-user"}
    with pytest.raises(ConfigError, match=r"^radvd_user: there is no user 'no-such-user' here"):
        LinuxRouterDriver.from_conf(options, cast(Any, None))


@pytest.mark.parametrize("user", [None, pwd.getpwuid(0).pw_name])
def test_a_user_of_this_host_is_accepted(user: str | None) -> None:
    check_radvd_user(user)
