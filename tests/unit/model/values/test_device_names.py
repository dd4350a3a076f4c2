"""Names of devices: what the kernel takes as it is, and nobody takes for something else."""

from __future__ import annotations

import pytest

from netfw.model.values.device_names import check_device_name


@pytest.mark.parametrize("name", ["tap1", "br-int", "eth0.12", "a@b", "_x", ".a", "x" * 15])
def test_names_that_the_kernel_takes_as_they_are(name):
    check_device_name(name)


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "all", "default", "a/b", "a b", "a\n", "x" * 16, "a:b", "eth0:1", ":",
     "%d", "tap%d", "a%", "-a", "-", "é", "a+"],
)  # fmt: skip
def test_names_that_the_kernel_refuses_or_expands_or_that_look_like_options(name):
    with pytest.raises(ValueError, match="not a device name"):
        check_device_name(name)
