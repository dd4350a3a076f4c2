"""The Acme switch: what in your package is the client of your device's API.

Its whole state is one JSON file, so that this sample needs no device.  All that the driver relies
on is what any good API offers: one change at a time, and each change as a whole or not at all.
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
    """A remark of whoever made it; the switch keeps it and does not read it."""
    mac: str
    mtu: int
    up: bool
    admitted: bool = False
    """Whether its traffic may pass."""


class AcmeSwitch:
    """One switch.  Making this object does not contact it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def session(self) -> Iterator[dict[str, SwitchPort]]:
        """Its ports by name, for one client at a time; changes are made when the block ends well.

        :raises BackendUnavailable: the switch does not answer.
        :raises BackendBroken: it answers what nobody understands.
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
        """Keep others out; the kernel lets them in again when this process dies."""
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
        """Replace the file at once, so that who dies here leaves the old state or the new one."""
        fresh = self._path.with_name(f"{self._path.name}.new")
        fresh.write_text(json.dumps({name: asdict(port) for name, port in ports.items()}))
        fresh.replace(self._path)
