"""The Acme switch: in your package, this is the client of your device's API.

Its whole state is one JSON file, so that this sample needs no device.  The driver relies on one
property of the API: transactions that are atomic and isolated from each other.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import asdict, frozen

from netfw.errors import BackendBroken, BackendUnavailable


@frozen(kw_only=True)
class SwitchPort:
    """A port of the switch."""

    label: str = ""
    """Free text of the client that made the port; the switch stores it and does not read it."""
    mac: str
    mtu: int
    up: bool
    admitted: bool = False
    """Permission for traffic of the port to pass."""


class AcmeSwitch:
    """Client of one switch.  The constructor does not connect."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def session(self) -> Iterator[dict[str, SwitchPort]]:
        """Yield the ports by name, to one client at a time; commit unless the block raises.

        :raises BackendUnavailable: the switch does not answer.
        :raises BackendBroken: the state file is not that of an Acme switch.
        """
        try:
            with self._lock():
                ports = self._read()
                before = dict(ports)
                yield ports
                if ports != before:
                    self._write(ports)
        except OSError as exc:
            why = exc.strerror or str(exc)
            raise BackendUnavailable(f"no Acme switch answers at {self._path}: {why}") from exc

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Lock the switch; the kernel releases the lock if this process dies."""
        directory = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)
            yield
        finally:
            os.close(directory)

    def _read(self) -> dict[str, SwitchPort]:
        try:
            stored = json.loads(self._path.read_text())
            return {name: SwitchPort(**port) for name, port in stored.items()}
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, AttributeError) as exc:
            raise BackendBroken(f"{self._path} is not the state of an Acme switch: {exc}") from exc

    def _write(self, ports: dict[str, SwitchPort]) -> None:
        """Replace the file atomically: a crash leaves the old state or the new one."""
        fresh = self._path.with_name(f"{self._path.name}.new")
        fresh.write_text(json.dumps({name: asdict(port) for name, port in ports.items()}))
        fresh.replace(self._path)
