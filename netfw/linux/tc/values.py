"""The HTB classes of a device, and the filters that choose them.  Pure."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from netfw.model.values.address import Mac

HTB = "htb"
MINORS = range(1, 0xFFFF + 1)
"""Numbers of classes below one handle."""
_LD_WORD, _LD_HALF, _LD_BYTE = 0x20, 0x28, 0x30
_AND, _JEQ, _RETURN = 0x54, 0x15, 0x06
_VLAN_TAG, _VLAN_PRESENT = 0xFFFFF000 + 44, 0xFFFFF000 + 48
"""Where classic BPF finds a tag that the kernel keeps beside the frame."""
_MATCHES, _FAILS = 0xFFFFFFFF, 0
_TAGGED = 0x8100
_EXACT_KBPS = 1_000_000
"""Below this rate ``tc`` shows every kilobit; beyond it, thousands of them."""

Instruction = tuple[int, int, int, int]
"""Code, jumps if true and false, operand."""


@frozen(kw_only=True)
class TrafficClass:
    """A class of an HTB queueing discipline."""

    minor: int
    parent: int = 0
    """Minor number of the parent class; 0: the queueing discipline itself."""
    kbps: int
    """Guaranteed."""
    ceil_kbps: int
    """The most, if others leave it."""
    limit: int | None = None
    """Packets that its queue holds; ``None``: as many as the kernel chooses."""


@frozen(kw_only=True)
class ClassFilter:
    """A filter by classic BPF; the number is that of the class it leads to."""

    minor: int
    priority: int
    """The lowest is asked first."""
    program: tuple[Instruction, ...]


@frozen(kw_only=True)
class DeviceTraffic:
    """The root queueing discipline of a device, and what is below it."""

    kind: str
    handle: int = 0
    """Major number; the kernel's own default has 0."""
    classes: Mapping[int, TrafficClass] = field(factory=dict)
    filters: Mapping[int, ClassFilter] = field(factory=dict)

    @property
    def is_default(self) -> bool:
        """Whether it is the default of the kernel."""
        return self.handle == 0


@frozen(kw_only=True)
class TrafficChange:
    """Lines of ``tc -batch`` for one device."""

    device: str
    text: str
    lines: tuple[str, ...]
    undo: tuple[str, ...] = ()
    """Lines that remove what is there when a line after the first is refused; they may fail."""


def shown_kbps(kbps: int) -> int:
    """Return *kbps*, rounded up to what ``tc`` shows in full."""
    step = 1
    while kbps >= _EXACT_KBPS * step:
        step *= 1000
        kbps = -(-kbps // step) * step
    return kbps


def source_program(mac: Mac, vlan: int | None) -> tuple[Instruction, ...]:
    """Return the program that matches frames from *mac*, under the tag *vlan* if it is one.

    The tag may be in the frame or beside it.
    """
    octets = bytes.fromhex(str(mac).replace(":", ""))
    high, low = int.from_bytes(octets[:2]), int.from_bytes(octets[2:])
    source: list[tuple[int, int, int]] = [(_LD_WORD, 0, 8), (_JEQ, 1, low)]
    source += [(_LD_HALF, 0, 6), (_JEQ, 1, high)]
    if vlan is None:
        return _resolved(source)
    inline: list[tuple[int, int, int]] = [(_LD_HALF, 0, 12), (_JEQ, 1, _TAGGED), (_LD_HALF, 0, 14)]
    same = [(_AND, 0, 0x0FFF), (_JEQ, 1, vlan)]
    beside: list[tuple[int, int, int]] = [(_LD_WORD, 0, _VLAN_TAG), *same]
    choice: list[tuple[int, int, int]] = [(_LD_BYTE, 0, _VLAN_PRESENT), (_JEQ, 2, 0)]
    return _resolved([*source, *choice, *beside, (_RETURN, 0, _MATCHES), *inline, *same])


def _resolved(steps: list[tuple[int, int, int]]) -> tuple[Instruction, ...]:
    """Return *steps* with jumps: 1 is a test that has to hold, 2 one that chooses the part behind
    the first return."""
    program: list[Instruction] = []
    fails = len(steps) + 1
    codes = [code for code, _, _ in steps]
    for at, (code, kind, operand) in enumerate(steps):
        forward = codes.index(_RETURN) - at if kind == 2 else 0
        program.append((code, forward, fails - at - 1 if kind == 1 else 0, operand))
    return (*program, (_RETURN, 0, 0, _MATCHES), (_RETURN, 0, 0, _FAILS))
