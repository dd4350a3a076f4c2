"""Ranges of transport ports."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from netfw.model.values.validation import Problem, Validated, outside

PORTS = range(1, 65536)


@frozen
class PortRange(Validated):
    """Ports of TCP, UDP and similar protocols, both ends included."""

    first: int
    last: int

    @classmethod
    def single(cls, port: int) -> PortRange:
        """Return the range of one port."""
        return cls(port, port)

    def _problems(self) -> Iterator[Problem]:
        for name, port in (("first", self.first), ("last", self.last)):
            if port not in PORTS:
                yield name, outside(port, PORTS)
        if self.first > self.last:
            yield "last", f"{self.last} comes before {self.first}"

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __contains__(self, port: int) -> bool:
        return self.first <= port <= self.last

    def __str__(self) -> str:
        return f"{self.first}:{self.last}"
