"""Chains for the frames of Linux bridges as values, and the text that ebtables has for them.  Pure.

Only the ``nat`` table, whose PREROUTING sees every frame that enters a port of a bridge, and whose
POSTROUTING every one that leaves.  ebtables prints the text that netfw writes, so that it compares.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network

from attrs import field, frozen

from netfw.errors import InvalidInput
from netfw.model.values.address import Mac

NAME_LENGTH = 31

_OWNER = re.compile(r"[A-Za-z0-9_]{1,16}")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_DEVICE = re.compile(r"[A-Za-z0-9_.@][A-Za-z0-9_.@-]{0,14}\+?")
_HOOK = re.compile(r"-A (PREROUTING|POSTROUTING) -j (\S+)")
_PROTOCOLS = frozenset({"ARP", "IPv4", "IPv6"})
_VERDICTS = frozenset({"ACCEPT", "DROP", "RETURN"})


@frozen(kw_only=True)
class FrameRule:
    """One rule: frames that match all of it go to *chain* (of the same owner) or get *verdict*.

    :raises InvalidInput: a value that ebtables could take for something else.
    """

    verdict: str = "RETURN"
    chain: str | None = None
    in_device: str | None = None
    out_device: str | None = None
    protocol: str | None = None
    source: Mac | None = None
    arp_source: IPv4Network | None = None
    """Sender protocol address of an ARP packet."""
    arp_target: IPv4Network | None = None
    """Target protocol address of an ARP packet."""
    arp_mac: Mac | None = None

    def __attrs_post_init__(self) -> None:
        for option, device in (("-i", self.in_device), ("-o", self.out_device)):
            if device is not None and not _DEVICE.fullmatch(device):
                raise InvalidInput({option: f"{device!r} is not the name of a device"})
        if self.protocol is not None and self.protocol not in _PROTOCOLS:
            raise InvalidInput({"-p": f"{self.protocol!r} is none of {sorted(_PROTOCOLS)}"})
        if self.verdict not in _VERDICTS:
            raise InvalidInput({"-j": f"{self.verdict!r} is none of {sorted(_VERDICTS)}"})
        for mac in (self.source, self.arp_mac):
            if mac is not None and type(mac) is not Mac:
                raise InvalidInput({"mac": f"{mac!r} is not a MAC address"})

    def render(self, owner: str) -> str:
        """Render the rule as one line, in the order in which ebtables prints it."""
        words: list[str] = []
        if self.protocol is not None:
            words += ["-p", self.protocol]
        if self.source is not None:
            words += ["-s", self.source]
        if self.in_device is not None:
            words += ["-i", self.in_device]
        if self.out_device is not None:
            words += ["-o", self.out_device]
        for option, prefix in (
            ("--arp-ip-src", self.arp_source),
            ("--arp-ip-dst", self.arp_target),
        ):
            if prefix is not None and prefix.prefixlen:
                single = prefix.prefixlen == prefix.max_prefixlen
                words += [option, str(prefix.network_address if single else prefix)]
        if self.arp_mac is not None:
            words += ["--arp-mac-src", self.arp_mac]
        target = self.verdict if self.chain is None else full_name(owner, self.chain)
        return " ".join([*words, "-j", target])


@frozen
class FrameChain:
    """The rules of a chain, its policy, and the built-in chain that jumps to it."""

    rules: tuple[FrameRule, ...] = ()
    policy: str = "RETURN"
    hook: str | None = None


@frozen
class FoundChain:
    """A chain as ebtables prints it."""

    policy: str
    lines: tuple[str, ...] = field(default=(), repr=False)
    hook: str | None = None


@frozen
class PutFrameChain:
    """Create or replace the chain."""

    name: str
    wanted: FoundChain = field(repr=False)
    hook: str | None = None
    """Built-in chain that needs a new jump, if any."""

    def __str__(self) -> str:
        return f"put chain {self.name}: {len(self.wanted.lines)} rules, else {self.wanted.policy}"


@frozen
class DropFrameChain:
    """Remove the chain, and the jump to it."""

    name: str
    hook: str | None = None

    def __str__(self) -> str:
        return f"drop chain {self.name}"


FrameOperation = PutFrameChain | DropFrameChain


def full_name(owner: str, name: str) -> str:
    """Return the kernel's name of the chain *name* of *owner*.

    :raises InvalidInput: longer than ebtables accepts, or with a character it could misread.
    """
    full = f"{owner}-{name}"
    if not _NAME.fullmatch(name) or len(full) > NAME_LENGTH:
        raise InvalidInput({f"chain {full!r}": f"not up to {NAME_LENGTH} of A-Z a-z 0-9 _ . -"})
    return full


def plan_frames(
    put: Mapping[str, FrameChain],
    drop: Iterable[str],
    have: Mapping[str, FoundChain],
    owner: str,
) -> tuple[FrameOperation, ...]:
    """Plan the operations that make the chains of *put* as desired and remove those of *drop*."""
    operations: list[FrameOperation] = []
    for name, chain in put.items():
        lines = tuple([rule.render(owner) for rule in chain.rules])
        wanted = FoundChain(chain.policy, lines, chain.hook)
        there = have.get(name)
        if there != wanted:
            full_name(owner, name)
            missing = chain.hook if there is None or there.hook != chain.hook else None
            operations.append(PutFrameChain(name, wanted, missing))
    operations += [DropFrameChain(name, have[name].hook) for name in drop if name in have]
    return tuple(operations)


def render_frames(operations: Iterable[FrameOperation], owner: str) -> str:
    """Render one restore that executes *operations*, all of them or none."""
    every = list(operations)
    heads, hooks, rules, gone = [], [], [], []
    for operation in every:
        full = full_name(owner, operation.name)
        match operation:
            case PutFrameChain(_, wanted, hook):
                heads.append(f":{full} {wanted.policy}")
                rules += [f"-A {full} {line}" for line in wanted.lines]
                hooks += [f"-I {hook} -j {full}"] if hook else []
            case DropFrameChain(_, hook):
                heads.append(f":{full} RETURN")
                hooks += [f"-D {hook} -j {full}"] if hook else []
                gone.append(f"-X {full}")
    return "\n".join(["*nat", *heads, *rules, *hooks, *gone, ""])


def parse_save(text: str, owner: str) -> dict[str, FoundChain]:
    """Parse the chains of *owner* from the output of ``ebtables-save``."""
    prefix = f"{owner}-"
    policies: dict[str, str] = {}
    lines: dict[str, list[str]] = {}
    hooks: dict[str, str] = {}
    table = ""
    for line in text.splitlines():
        if line.startswith("*"):
            table = line[1:].strip()
        elif table != "nat":
            continue
        elif line.startswith(f":{prefix}"):
            full, policy = line[1:].split(" ", 1)
            policies[full.removeprefix(prefix)] = policy.split()[0]
        elif line.startswith(f"-A {prefix}"):
            full, rule = line.removeprefix("-A ").split(" ", 1)
            lines.setdefault(full.removeprefix(prefix), []).append(rule.strip())
        elif (found := _HOOK.fullmatch(line.strip())) and found[2].startswith(prefix):
            hooks[found[2].removeprefix(prefix)] = found[1]
    return {
        name: FoundChain(policy, tuple(lines.get(name, ())), hooks.get(name))
        for name, policy in policies.items()
    }


def check_owner(owner: str) -> None:
    """Refuse an owner that cannot distinguish its chains from those of another.

    :raises InvalidInput: it has a dash (which ends the owner in a chain's name) or is too long.
    """
    if not _OWNER.fullmatch(owner):
        raise InvalidInput({f"owner {owner!r}": "not 1 to 16 of A-Z a-z 0-9 _"})
