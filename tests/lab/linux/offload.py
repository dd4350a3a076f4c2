"""Offload settings of devices, as ethtool shows them."""

from __future__ import annotations

import subprocess


def has_checksum_offload(device: str) -> bool:
    """Return whether *device*, in the calling thread's namespace, leaves checksums to hardware."""
    argv = ["ethtool", "--show-features", device]
    shown = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    return "tx-checksumming: on" in shown
