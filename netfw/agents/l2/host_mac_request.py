"""HostMacRequest: asks the source for the MAC address of this host for distributed routing."""

from __future__ import annotations

from typing import Any

from netfw.drivers.state_source import StateSource
from netfw.drivers.values.agent_requests import EnsureHostMac
from netfw.drivers.values.keys import HostKey
from netfw.errors import BackendUnavailable, NetfwError
from netfw.model.values.address import Mac
from netfw.plan import Outcome


class HostMacRequest:
    """A request that the loop repeats, as it repeats every key, until *source* has answered.

    It is due again with every snapshot: the source may have lost the answer.  Without a source
    there is nothing to request.
    """

    def __init__(self, host: str, source: StateSource | None) -> None:
        self.key = HostKey(host)
        self.answer: Mac | None = None
        self.is_due = False
        self._source = source

    def repeat(self) -> frozenset[HostKey]:
        """Make the request due; return the key to converge for that."""
        self.is_due = self._source is not None
        return frozenset({self.key} if self.is_due else ())

    def send(self) -> Outcome[Any]:
        """Send the request; return the outcome of the key of this host."""
        assert self._source is not None, "without a source it is never due"
        try:
            self.answer = self._source.request(EnsureHostMac(self.key.host))
        except BackendUnavailable as exc:
            return Outcome(waiting={self.key: f"the MAC address that the source has for it: {exc}"})
        except NetfwError as exc:
            return Outcome(failed={self.key: exc})
        self.is_due = False
        return Outcome(done=frozenset({self.key}))
