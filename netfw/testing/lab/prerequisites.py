"""Prerequisites of a lab, and messages about how to install those that are missing."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from netfw.errors import BackendBroken

TUN = "/dev/net/tun"

_SWITCH_PACKAGES = {
    "ovsdb-tool": "openvswitch-switch",
    "ovsdb-server": "openvswitch-switch",
    "ovs-vswitchd": "openvswitch-switch",
    "ovs-vsctl": "openvswitch-switch",
    "ovs-appctl": "openvswitch-switch",
}
_PACKAGES = {"ip": "iproute2", **_SWITCH_PACKAGES}
_SYSTEM_PATHS = ("/usr/local/sbin", "/usr/sbin", "/sbin")

APPARMOR = "kernel.apparmor_restrict_unprivileged_userns"
CLONE = "kernel.unprivileged_userns_clone"
LIMIT = "user.max_user_namespaces"
_SWITCHES = {APPARMOR: "0", CLONE: "1", LIMIT: "10000"}


def search_path() -> str:
    """Return ``PATH`` with the system directories, which ordinary users often lack."""
    have = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join([*have, *(path for path in _SYSTEM_PATHS if path not in have)])


def require_tools(*, switch: bool = True) -> None:
    """Raise if programs or devices are missing that a lab needs.

    :param switch: its hosts have an Open vSwitch.
    :raises BackendBroken: naming all that is missing, and how to get it.
    """
    path = search_path()
    needed = _PACKAGES if switch else _PACKAGES.keys() - _SWITCH_PACKAGES.keys()
    missing = [name for name in needed if shutil.which(name, path=path) is None]
    sentences = missing_programs(missing)
    if switch:
        sentences += unusable_tun(_try_tun(), ordinary=_is_ordinary())
    if sentences:
        raise BackendBroken("; ".join(sentences))


def missing_programs(names: Iterable[str]) -> list[str]:
    """Return what to install for the programs *names*."""
    missing = sorted(names)
    if not missing:
        return []
    packages = " ".join(sorted({_PACKAGES[name] for name in missing}))
    return [f"not installed: {', '.join(missing)} (apt install {packages})"]


def unusable_tun(number: int, *, ordinary: bool) -> list[str]:
    """Return what to do if opening ``/dev/net/tun`` failed with this errno (0: it did not)."""
    if number == 0:
        return []
    if number not in (errno.EACCES, errno.EPERM):
        return [f"{TUN} cannot be opened ({os.strerror(number)}): modprobe tun, as root"]
    way = "give this container access to it"
    if ordinary:
        way = f"use sudo, or let users open it as distributions do by default (chmod 0666 {TUN})"
    return [f"{TUN} may not be opened, and Open vSwitch needs it: {way}"]


def why_no_sandbox(error: OSError, uid: int) -> str:
    """Return why the kernel refused namespaces to the user *uid*, and what to do."""
    settings = {name: _read(name) for name in _SWITCHES}
    return explain(error, uid, {k: v for k, v in settings.items() if v is not None})


def explain(error: OSError, uid: int, settings: Mapping[str, str]) -> str:
    """Return the sentence for *error* on a machine with these sysctl *settings*."""
    problem = f"no sandbox on this machine ({error.strerror or error})"
    if uid == 0:
        return f"{problem}: root lacks CAP_SYS_ADMIN here; run the container as privileged"
    reasons = {
        APPARMOR: settings.get(APPARMOR, "0") != "0",
        CLONE: settings.get(CLONE, "1") == "0",
        LIMIT: settings.get(LIMIT, "1") == "0" or error.errno == errno.ENOSPC,
    }
    switches = [f"sysctl -w {name}={_SWITCHES[name]}" for name, holds in reasons.items() if holds]
    if switches:
        return (
            f"{problem}: it does not give user namespaces to ordinary users; use sudo, or have an "
            f"administrator run: {'; '.join(switches)}"
        )
    return f"{problem}: an ordinary user may not do this here; use sudo"


def _try_tun() -> int:
    """Return the error number of opening the device; 0 if it opens."""
    try:
        os.close(os.open(TUN, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return error.errno or errno.EIO
    return 0


def _is_ordinary() -> bool:
    """Return whether this user is not root outside of its user namespace."""
    every_uid = ["0", "0", "4294967295"]
    return os.geteuid() != 0 or Path("/proc/self/uid_map").read_text().split() != every_uid


def _read(name: str) -> str | None:
    try:
        return Path("/proc/sys", *name.split(".")).read_text().strip()
    except OSError:
        return None
