"""Run a command to its end, in any namespace."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from attrs import field, frozen

from netfw.errors import BackendBroken, BackendUnavailable
from netfw.linux.netns import Namespace, run_in

PACKAGES: Mapping[str, str] = MappingProxyType(
    {
        "iptables": "iptables",
        "ip6tables": "iptables",
        "ebtables": "iptables",
        "ipset": "ipset",
        "dnsmasq": "dnsmasq-base",
        "dhclient": "isc-dhcp-client",
        "dhcp_release": "dnsmasq-utils",
        "dhcp_release6": "dnsmasq-utils",
        "keepalived": "keepalived",
        "conntrackd": "conntrackd",
        "haproxy": "haproxy",
        "radvd": "radvd",
        "setpriv": "util-linux",
    }
)
"""Debian package of each command."""


@frozen(kw_only=True)
class Finished:
    """A command that has ended."""

    argv: tuple[str, ...]
    status: int
    output: str = field(repr=False)
    errors: str

    @property
    def ok(self) -> bool:
        return self.status == 0

    @property
    def message(self) -> str:
        """Output of the command, for an error message."""
        return (self.errors or self.output).strip() or f"exit status {self.status}"


def run_command(
    argv: Sequence[str], *, feed: str = "", namespace: Namespace = None, timeout: float = 30.0
) -> Finished:
    """Run *argv* within *namespace* and wait for its end; *feed* is its standard input.

    :raises BackendBroken: there is no such command; the message says what to install.
    :raises BackendUnavailable: it did not end in time and was killed.
    :raises NotFound: there is no such namespace.
    """
    if namespace is None:
        return _run(argv, feed, timeout)
    return run_in(namespace, _run, argv, feed, timeout)


def _run(argv: Sequence[str], feed: str, timeout: float) -> Finished:
    # A file in memory: the command reads it at its own pace, without a thread that feeds a pipe.
    try:
        source = os.memfd_create("feed", os.MFD_CLOEXEC)
    except OSError as error:
        raise not_runnable(argv[0], error) from error
    try:
        os.write(source, feed.encode())
        os.lseek(source, 0, os.SEEK_SET)
        done = subprocess.run(argv, stdin=source, capture_output=True, timeout=timeout, check=False)
    except OSError as error:
        raise not_runnable(argv[0], error) from error
    except subprocess.TimeoutExpired as error:
        raise BackendUnavailable(
            f"{argv[0]} did not end within {timeout:g} s and was killed"
        ) from error
    finally:
        os.close(source)
    return Finished(
        argv=tuple(argv),
        status=done.returncode,
        output=done.stdout.decode(errors="backslashreplace"),
        errors=done.stderr.decode(errors="backslashreplace"),
    )


def why_missing(command: str, option: str = "") -> str | None:
    """Return what to do about a command that cannot be run; None if it can.

    :param option: name of the option that it was read from.
    """
    if shutil.which(command) is not None:
        return None
    if "/" in command and os.path.exists(command):
        correct = f": correct {option}" if option else ""
        return f"{command} is not a program that can be executed here{correct}"
    return _missing(command, option)


def not_runnable(command: str, error: OSError) -> BackendBroken:
    """Return the error to raise when *command* cannot be executed."""
    if not isinstance(error, FileNotFoundError):
        return BackendBroken(f"{command} cannot be executed: {error.strerror}")
    return BackendBroken(_missing(command))


def _missing(command: str, option: str = "") -> str:
    name = command.rsplit("/", 1)[-1]
    package = PACKAGES.get(name) or PACKAGES.get(name.split("-", 1)[0])
    advice = f"install it (Debian: apt install {package})" if package else "install it"
    correct = f"{option} or the PATH" if option else "the PATH"
    return f"there is no command {command} here: {advice}, or correct {correct}"
