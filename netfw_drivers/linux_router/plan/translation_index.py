"""Index of the floating IPs whose rules are in force: only rules that changed are parsed.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from attrs import field, frozen

from netfw.linux.iptables.chain import ChainKey
from netfw.linux.iptables.rule import Family
from netfw.model.values.address import IpAddress
from netfw.model.values.ids import FloatingIpId
from netfw_drivers.linux_router.plan.floating_ip_rules import (
    DNAT,
    Translation,
    by_address,
    float_chain,
    parse_translation,
)

Lines = tuple[str, ...]


@frozen(kw_only=True, eq=False)
class TranslationIndex:
    """The translations of the chains ``float-dnat``, in the order of their rules.

    A Python dictionary keeps the hashes of its keys, so that a copy of it costs little; a key that
    is added costs a call.
    """

    lines: Mapping[Family, Lines] = field(factory=lambda: dict.fromkeys(Family, ()))
    translations: dict[FloatingIpId, Translation] = field(factory=dict)
    floating: dict[IpAddress, tuple[FloatingIpId, IpAddress]] = field(factory=dict)
    """By floating address: the floating IP, and the address of its port."""

    def advance(self, chains: Mapping[ChainKey, Lines]) -> TranslationIndex:
        """Return the index of *chains*, by the rules that differ from those of this one."""
        lines = {family: chains.get(float_chain(DNAT, family), ()) for family in Family}
        if lines == self.lines:
            return self
        gone: set[str] = set()
        new: list[str] = []
        for family, now in lines.items():
            former = self.lines[family]
            removed = frozenset(former).difference(now)
            kept = tuple(line for line in former if line not in removed) if removed else former
            if now[: len(kept)] != kept:
                return _parse(lines)
            gone |= removed
            new += now[len(kept) :]
        translations, floating = dict(self.translations), dict(self.floating)
        for id, each in _parsed(gone):
            translations.pop(id, None)
            floating.pop(each.floating, None)
        for id, each in _parsed(new):
            translations[id] = each
            floating[each.floating] = id, each.fixed
        made = TranslationIndex(lines=lines, translations=translations, floating=floating)
        return made if self._is_exact and made._is_exact else _parse(lines)

    def beyond(self, other: TranslationIndex) -> Iterator[tuple[FloatingIpId, Translation]]:
        """Yield the translations of this index whose rules *other* does not have."""
        for family, lines in self.lines.items():
            if lines != other.lines[family]:
                yield from _parsed(frozenset(lines).difference(other.lines[family]))

    @property
    def _is_exact(self) -> bool:
        """Whether each rule is that of another floating IP and of another address."""
        count = sum(map(len, self.lines.values()))
        return len(self.translations) == len(self.floating) == count


def _parse(lines: Mapping[Family, Lines]) -> TranslationIndex:
    translations = dict(_parsed(chain.from_iterable(lines.values())))
    return TranslationIndex(
        lines=lines, translations=translations, floating=by_address(translations)
    )


def _parsed(lines: Iterable[str]) -> Iterator[tuple[FloatingIpId, Translation]]:
    return (found for found in map(parse_translation, lines) if found is not None)
