"""Grants of ``br-int`` to extensions, and checks of what they do with them.  Pure.

Requests are granted one after the other and a grant never changes, so the tables of one hook are
chained through hops: behind each extension's table there is one of ours that leads to the next
extension.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import field, frozen

from netfw import flows as of
from netfw.drivers.values.pipeline_grant import (
    Grant,
    GrantRequest,
    PipelineHook,
    RegisterGrant,
    RegisterRequest,
    TableGrant,
    TableRequest,
)
from netfw.drivers.values.switch_contribution import SwitchContribution
from netfw.errors import ConfigError, InvalidInput, NetfwError, NotSupported
from netfw.flows.action import NO_TABLE
from netfw.flows.field import FIELD, IN_PORT_WIDE
from netfw.flows.learn import LearnSpec
from netfw.flows.port_number import ALL, FLOOD, NORMAL, RESERVED
from netfw.ovs.openflow.messages import encoding_problem
from netfw_drivers.ovs.pipeline.tables import (
    ACCEPTED,
    COOKIE,
    DELIVER,
    EXTENSION_TABLES,
    FREE_REGISTERS,
    LOCAL_EGRESS,
    OWNER_MASK,
)

_REGISTER_BITS = 32
_SHOWN = 200
"""Characters of a flow's actions in an error."""
_MAX_EXTENSIONS = 255
_PORTS = 1 << 16
_METERS = tuple(first * _PORTS for first in range(16))
"""What the number of a port is added to.  Numbers are free; kernels have up to 200,000 meters."""
_HOOKED = (PipelineHook.FROM_PORT, PipelineHook.TO_PORT, PipelineHook.RECEIVED, PipelineHook.SENT)
"""Where packets go on after the extension has seen them."""
_MULTIPLE_PORTS = frozenset({NORMAL, FLOOD, ALL})
_CAME_BY = frozenset({FIELD["in_port"].name, IN_PORT_WIDE.name})
_NOT_OF_THE_PACKET = _CAME_BY | {
    *("tun_id", "tun_src", "tun_dst", "tun_ipv6_src", "tun_ipv6_dst"),
    *("pkt_mark", "ct_state", "ct_mark", "ct_label", "metadata"),
}
"""Fields that accompany a packet, besides registers, and are never granted."""


@frozen(kw_only=True)
class GrantedTable:
    """An extension's table at a hook, and the hop behind it; dropped packets go no further."""

    hook: PipelineHook
    table: int
    hop: int | None


@frozen(kw_only=True)
class ExtensionLayout:
    """All that was granted, in the order of the requests."""

    requests: tuple[GrantRequest, ...] = ()
    grants: Mapping[str, Grant] = field(factory=dict, hash=False)
    steps: tuple[GrantedTable, ...] = ()
    tables_left: tuple[int, ...] = EXTENSION_TABLES
    bits_used: Mapping[int, int] = field(factory=dict, hash=False)
    """Bits in use of each register, counted from its lowest."""
    meters_left: tuple[int, ...] = _METERS

    def granted(self, request: GrantRequest) -> ExtensionLayout:
        """Return this layout with *request* granted; see :meth:`SwitchDriver.grant`.

        :raises NotSupported: the switch has no such thing as is requested.
        :raises ConfigError: nothing is left, or one owner requests twice.
        """
        if request in self.requests:
            return self
        self._refuse(request)
        tables, steps, left = self._tables(request)
        registers, used = self._registers(request)
        grant = Grant(
            owner=request.owner,
            cookie=COOKIE | (len(self.requests) + 1) << 32,
            cookie_mask=OWNER_MASK,
            prefix=f"netfw-{request.owner}-",
            tables=tables,
            registers=registers,
            meters=self.meters_left[: request.meters],
        )
        return ExtensionLayout(
            requests=(*self.requests, request),
            grants={**self.grants, request.owner: grant},
            steps=(*self.steps, *steps),
            tables_left=left,
            bits_used=used,
            meters_left=self.meters_left[request.meters :],
        )

    def entry(self, hook: PipelineHook) -> int:
        """Return the table in which packets enter *hook*, or the next one if it is empty."""
        for step in self.steps:
            if step.hook is hook:
                return step.table
        return self._end(hook)

    def watchers(self) -> tuple[int, ...]:
        """Return the tables that receive dropped packets."""
        return tuple(step.table for step in self.steps if step.hook is PipelineHook.DROPPED)

    @property
    def delivers(self) -> bool:
        """Some extension receives what is delivered to ports."""
        return any(
            step.hook in {PipelineHook.TO_PORT, PipelineHook.RECEIVED} for step in self.steps
        )

    def hops(self) -> Iterator[tuple[PipelineHook, int, int]]:
        """Yield each hop: its hook, its table, and the table that it leads to."""
        for hook in _HOOKED:
            chain = [step for step in self.steps if step.hook is hook]
            following = [*(step.table for step in chain[1:]), self._end(hook)]
            for step, after in zip(chain, following, strict=False):
                if step.hop is not None:
                    yield hook, step.hop, after

    def _end(self, hook: PipelineHook) -> int:
        match hook:
            case PipelineHook.FROM_PORT:
                return LOCAL_EGRESS.number
            case PipelineHook.TO_PORT:
                return self.entry(PipelineHook.RECEIVED)
            case PipelineHook.RECEIVED:
                return DELIVER.number
            case PipelineHook.SENT:
                return ACCEPTED.number
            case PipelineHook.DROPPED:
                raise ValueError("what was dropped goes nowhere")

    def _refuse(self, request: GrantRequest) -> None:
        if request.owner in self.grants:
            raise ConfigError(f"two extensions are called {request.owner}: leave one out")
        if request.marks:
            raise NotSupported(
                f"{request.owner} requests marks: on a switch, request register bits"
            )
        if request.meters > len(self.meters_left):
            text = (
                f"it requests {request.meters} of each port, and {len(self.meters_left)} are left"
            )
            raise ConfigError(f"no meter is left for {request.owner}: {text}")
        if len(self.requests) == _MAX_EXTENSIONS:
            raise ConfigError(f"no cookie is left for {request.owner}: {self._who()}")

    def _tables(
        self, request: GrantRequest
    ) -> tuple[dict[str, TableGrant], list[GrantedTable], tuple[int, ...]]:
        left = list(self.tables_left)
        granted: dict[str, TableGrant] = {}
        steps: list[GrantedTable] = []
        for wanted in request.tables:
            number = self._take(left, request, wanted)
            hop = self._take(left, request, wanted) if wanted.hook in _HOOKED else None
            granted[wanted.name] = TableGrant(number=number, then=hop)
            if wanted.hook is not None:
                steps.append(GrantedTable(hook=wanted.hook, table=number, hop=hop))
        return granted, steps, tuple(left)

    def _take(self, left: list[int], request: GrantRequest, wanted: TableRequest) -> int:
        if not left:
            raise ConfigError(
                f"no table is left for {wanted.name} of {request.owner}: {self._who()}"
            )
        return left.pop(0)

    def _registers(self, request: GrantRequest) -> tuple[dict[str, RegisterGrant], dict[int, int]]:
        used = dict(self.bits_used)
        granted: dict[str, RegisterGrant] = {}
        for wanted in request.registers:
            register = self._register_for(wanted, used, request)
            first = used.get(register, 0)
            used[register] = first + wanted.bits
            granted[wanted.name] = RegisterGrant(register=register, first=first, bits=wanted.bits)
        return granted, used

    def _register_for(
        self, wanted: RegisterRequest, used: Mapping[int, int], request: GrantRequest
    ) -> int:
        for register in FREE_REGISTERS:
            if used.get(register, 0) + wanted.bits <= _REGISTER_BITS:
                return register
        raise ConfigError(
            f"no register has {wanted.bits} bits left for {wanted.name} of {request.owner}: "
            f"{self._who()}"
        )

    def _who(self) -> str:
        return "; ".join(
            f"{owner} has {len(grant.tables)} tables and "
            f"{sum(bits.bits for bits in grant.registers.values())} bits"
            for owner, grant in self.grants.items()
        )


def grant_violation(contribution: SwitchContribution, layout: ExtensionLayout) -> NetfwError | None:
    """Return how *contribution* exceeds its grant or OpenFlow, or ``None`` if it does not."""
    grant = layout.grants.get(contribution.owner)
    if grant is None:
        return InvalidInput({contribution.owner: "it adds flows without a grant"})
    for flow in (*contribution.flows, *contribution.network_flows):
        if problem := _problem(flow, grant) or encoding_problem(flow):
            return InvalidInput({contribution.owner: f"{problem}: {_shortened(flow)}"})
    return None


def _shortened(flow: of.Flow) -> str:
    """Return the text of a flow, its match first; the actions may be long, or have no text."""
    identity = f"table={flow.table},priority={flow.priority},{of.render_match(flow.match)}"
    actions = repr(flow.actions)
    more = "..." if len(actions) > _SHOWN else ""
    return f"{identity.rstrip(',')} actions={actions[:_SHOWN]}{more}"


def _problem(flow: of.Flow, grant: Grant) -> str:
    if flow.table not in {table.number for table in grant.tables.values()}:
        return f"table {flow.table} is not its own"
    if not _ours(flow.cookie, grant):
        return f"cookie {flow.cookie:#x} is not its own"
    return next(_problems(flow, grant), "")


def _problems(flow: of.Flow, grant: Grant) -> Iterator[str]:
    """Yield how *flow*, which is in a granted table, exceeds its grant."""
    own = {table.number for table in grant.tables.values()}
    onward = own | {table.then for table in grant.tables.values()} | {NO_TABLE}
    for action in flow.actions:
        match action:
            case of.Resubmit(port=int(port)):
                yield f"port {port} is not where the packet came in"
            case of.Resubmit(table=number) | of.GotoTable(table=number) | of.Ct(table=number):
                if number not in onward:
                    yield f"table {number}, where it goes on, is not its own"
            case of.Learn(table=number, cookie=cookie, specs=specs):
                if number not in own or not _ours(cookie, grant):
                    yield "it learns what is not its own"
                for spec in specs:
                    yield from _excesses(spec, grant)
            case _:
                yield from _excesses(action, grant)


def _excesses(action: of.Action | LearnSpec, grant: Grant) -> Iterator[str]:
    """Yield what *action* writes, or where it sends, beyond *grant*."""
    match action:
        case of.Load(bits=bits) | of.Move(target=bits) | of.LearnLoad(target=bits):
            if not _writable(bits, grant):
                yield f"{bits}, which it writes, is not its own"
        case of.SetField(field=where):
            if not _writable(of.Bits(where, 0, where.nxm_width - 1), grant):
                yield f"{where.name} is not its own to write"
        case of.Output(port=port) if port in _MULTIPLE_PORTS:
            yield f"{RESERVED[port]} stands for ports that it does not name"
        case of.OutputTo(bits=bits) | of.LearnOutput(source=bits):
            if not _names_port(bits, grant):
                yield f"{bits} is not its own to name a port"
        case of.SendToController(limit=of.PacketLimit(meter=number)) | of.Meter(id=number):
            if not any(first < number < first + _PORTS for first in grant.meters):
                yield f"meter {number} is not its own"
            elif isinstance(action, of.Meter) and action.limit is None:
                yield f"meter {number} has no limit"


def _names_port(bits: of.Bits, grant: Grant) -> bool:
    """Return whether these bits are set by the flow itself, or are the port of arrival."""
    own = bits.field in of.REGISTERS and _writable(bits, grant)
    return own or bits.field.name in _CAME_BY


def _ours(cookie: int, grant: Grant) -> bool:
    return cookie & grant.cookie_mask == grant.cookie


def _writable(bits: of.Bits, grant: Grant) -> bool:
    if bits.field not in of.REGISTERS:
        return bits.field.name not in _NOT_OF_THE_PACKET
    number = of.REGISTERS.index(bits.field)
    return any(
        given.register == number
        and given.first <= bits.first
        and bits.last < given.first + given.bits
        for given in grant.registers.values()
    )
