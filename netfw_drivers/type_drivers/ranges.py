"""Parsers of ranges of segment ids in options.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NoReturn

from netfw.errors import ConfigError, InvalidInput
from netfw.model.segment import VLAN_IDS, NetworkType, Provider
from netfw.model.values.text_validation import check_physical_network
from netfw.model.values.validation import outside


def check_type(own: NetworkType, request: Provider) -> None:
    """Validate that *request* has the driver's *own* type.

    :raises InvalidInput: names the attribute.
    """
    if request.network_type != own:
        raise InvalidInput(
            {"network_type": f"{request.network_type} is not what the {own} driver is for"}
        )


Span = tuple[int, int]
"""First and last id of a range."""


def spans_of(option: str, texts: Iterable[str], allowed: range) -> tuple[Span, ...]:
    """Parse ranges such as ``1:1000``, sorted and joined where they touch.

    :raises ConfigError: names every text that is wrong, and what is wrong with it.
    """
    problems: list[str] = []
    spans: list[Span] = []
    for text in texts:
        try:
            spans.append(_span(text, allowed))
        except ValueError as exc:
            problems.append(f"{text!r}: {exc}")
    if problems:
        _refuse(option, problems, "write FIRST:LAST, several with commas between")
    return joined(spans)


def vlan_spans(option: str, texts: Iterable[str]) -> Mapping[str, tuple[Span, ...]]:
    """Parse ranges per physical network such as ``physnet1:100:199`` or ``physnet2``.

    A physical network without a range has no VLANs for automatic allocation.

    :raises ConfigError: names every text that is wrong, and what is wrong with it.
    """
    problems: list[str] = []
    found: dict[str, list[Span]] = {}
    for text in texts:
        name, colon, rest = text.strip().partition(":")
        try:
            check_physical_network(name)
            spans = [_span(rest, VLAN_IDS)] if colon else []
        except ValueError as exc:
            problems.append(f"{text!r}: {exc}")
        else:
            found.setdefault(name, []).extend(spans)
    if problems:
        _refuse(
            option, problems, "write PHYSNET:FIRST:LAST or PHYSNET, several with commas between"
        )
    return {name: joined(spans) for name, spans in found.items()}


def joined(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Join *spans* to the smallest number of disjoint ranges."""
    return tuple(_joined(sorted(spans)))


def _joined(ordered: Iterable[Span]) -> Iterator[Span]:
    pending: Span | None = None
    for first, last in ordered:
        if pending is None:
            pending = first, last
        elif first <= pending[1] + 1:
            pending = pending[0], max(last, pending[1])
        else:
            yield pending
            pending = first, last
    if pending is not None:
        yield pending


def _span(text: str, allowed: range) -> Span:
    ends = [end.strip() for end in text.split(":")]
    if len(ends) != 2 or not all(end.isascii() and end.isdigit() for end in ends):
        raise ValueError("not two numbers with a colon between")
    first, last = map(int, ends)
    for number in (first, last):
        if number not in allowed:
            raise ValueError(outside(number, allowed))
    if last < first:
        raise ValueError(f"{last} comes before {first}")
    return first, last


def _refuse(option: str, problems: Iterable[str], how: str) -> NoReturn:
    raise ConfigError(f"{option}: {'; '.join(problems)}; {how}")
