"""What several processes ask of one database at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from netfw.drivers.server.query import RequestContext
from netfw.drivers.values.reports import RoleReport
from netfw.errors import RequestError
from netfw.model.resource import Kind, Ref
from netfw.model.router import HaRole
from netfw.server.db import Database, Limits
from netfw.server.security_groups.groups import default_group
from tests.lab.server.forkserver import CONTEXT
from tests.lab.server.l3.environment import ADMIN, ANNA, Layer3
from tests.lab.server.l3.ha_samples import ha_router, l3_agent

WORKERS = 4
PATIENCE = 120.0
"""Seconds for which a transaction waits for locks, and processes for each other: what they ask for
must succeed on a busy machine too."""
_meeting: list[Any] = []


def _meet_at(barrier: Any) -> None:
    _meeting.append(barrier)


def at_once(work: Callable[..., Any], url: str, *arguments: Any) -> list[Any]:
    """Return the results of *work* in several processes, which begin together."""
    barrier = CONTEXT.Barrier(WORKERS)
    with ProcessPoolExecutor(WORKERS, CONTEXT, _meet_at, (barrier,)) as pool:
        running = [pool.submit(work, url, *arguments, seed) for seed in range(WORKERS)]
        return [each.result(timeout=2 * PATIENCE) for each in running]


@contextmanager
def core_at(url: str) -> Iterator[Layer3]:
    """Yield a core of this process on the database."""
    database = Database(url, Limits(lock_timeout=PATIENCE))
    try:
        yield Layer3(database)
    finally:
        database.close()


def outcome(work: Callable[[], Any]) -> str:
    """Begin *work* together with all processes; return the type of error it raises; empty: none."""
    _meeting[0].wait(PATIENCE)
    try:
        work()
    except RequestError as exc:
        return type(exc).__name__
    return ""


def want_default_groups(url: str, projects: list[str], seed: int) -> dict[str, str]:
    """Return the default group of each project."""
    with core_at(url) as core:

        def group(project: str) -> str:
            asking = RequestContext(project_id=project)
            _meeting[0].wait(PATIENCE)
            return str(core.context.run(asking, lambda unit: default_group(unit, project)))

        return {project: group(project) for project in projects}


def want_rules(url: str, group: str, ports: list[int], seed: int) -> list[str]:
    """Make a rule for each port; the outcomes."""

    def make(core: Layer3, port: int) -> None:
        core.create(
            "security_group_rule",
            security_group_id=group,
            direction="ingress",
            protocol="tcp",
            port_range_min=port,
            port_range_max=port,
        )

    with core_at(url) as core:
        return [outcome(lambda port=port: make(core, port)) for port in ports]  # type: ignore[misc]


def want_interface(url: str, router: str, subnet: str, seed: int) -> str:
    """Connect a router to a subnet."""
    with core_at(url) as core:
        return outcome(lambda: core.connect(router, subnet_id=subnet))


def want_association(url: str, floating: list[str], port: str, seed: int) -> str:
    """Associate the floating IP of this process with the port of all."""
    with core_at(url) as core:
        return outcome(lambda: core.update("floatingip", floating[seed], ANNA, port_id=port))


def want_opposites(url: str, cases: list[dict[str, str]], seed: int) -> list[str]:
    """Associate in half of the processes, and remove the router's interface in the others."""

    def one(core: Layer3, case: dict[str, str]) -> None:
        if seed % 2:
            core.disconnect(case["router"], subnet_id=case["subnet"])
        else:
            core.update("floatingip", case["floating"], ANNA, port_id=case["port"])

    with core_at(url) as core:
        return [outcome(lambda case=case: one(core, case)) for case in cases]  # type: ignore[misc]


def want_forwardings(url: str, cases: list[dict[str, str]], seed: int) -> list[str]:
    """Forward one external port of each floating IP, to a port of this process; the outcomes."""

    def one(core: Layer3, case: dict[str, str]) -> None:
        core.create(
            "port_forwarding",
            floatingip_id=case["floating"],
            protocol="tcp",
            external_port=80,
            internal_port=8000 + seed,
            internal_port_id=case["port"],
        )

    with core_at(url) as core:
        return [outcome(lambda case=case: one(core, case)) for case in cases]  # type: ignore[misc]


def want_both_uses(url: str, cases: list[dict[str, str]], seed: int) -> list[str]:
    """Associate the floating IP in half of the processes, and forward a port of it in the rest."""

    def one(core: Layer3, case: dict[str, str]) -> None:
        if seed % 2:
            core.update("floatingip", case["floating"], ANNA, port_id=case["port"])
        else:
            forward(core, case["floating"], case["other"], 80 + seed)

    with core_at(url) as core:
        return [outcome(lambda case=case: one(core, case)) for case in cases]  # type: ignore[misc]


def want_deletion_and_forwarding(url: str, cases: list[dict[str, str]], seed: int) -> list[str]:
    """Delete the port that is forwarded to in one process, and forward to another in the others."""

    def one(core: Layer3, case: dict[str, str]) -> None:
        if seed:
            forward(core, case["floating"], case["other"], 80 + seed)
        else:
            core.delete("port", case["port"])

    with core_at(url) as core:
        return [outcome(lambda case=case: one(core, case)) for case in cases]  # type: ignore[misc]


THREADS = 8


def _in_threads(work: Callable[[int], Any]) -> list[str]:
    """Return the outcomes of *work* in several threads, which begin with those of all processes."""
    _meeting[0].wait(PATIENCE)

    def one(number: int) -> str:
        try:
            work(number)
        except RequestError as exc:
            return f"{type(exc).__name__}: {exc}"
        return ""

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(one, range(THREADS)))


def want_ha_routers(url: str, seed: int) -> list[str]:
    """Create highly available routers of one project; the outcomes."""
    with core_at(url) as core:
        return _in_threads(lambda _: ha_router(core))


def want_ha_routers_and_none(url: str, routers: list[str], seed: int) -> list[str]:
    """Delete highly available routers of one project, while new ones come and go."""

    def one(number: int) -> None:
        if number % 2:
            core.delete("router", ha_router(core))
        else:
            core.delete("router", routers[seed * THREADS + number])

    with core_at(url) as core:
        return _in_threads(one)


def want_conversions(url: str, routers: list[str], seed: int) -> list[str]:
    """Convert routers that are down to highly available ones, and half of them back."""

    def one(number: int) -> None:
        id = routers[seed * THREADS + number]
        core.update("router", id, ADMIN, ha=True)
        if number % 2:
            core.update("router", id, ADMIN, ha=False)

    with core_at(url) as core:
        return _in_threads(one)


def want_interfaces(url: str, cases: list[tuple[str, str]], seed: int) -> list[str]:
    """Connect highly available routers of one project, each to a subnet; the outcomes."""
    mine = cases[seed::WORKERS]

    def one(number: int) -> None:
        for router, subnet in mine[number::THREADS]:
            core.connect(router, subnet_id=subnet)

    with core_at(url) as core:
        return _in_threads(one)


def want_gateways(url: str, routers: list[str], network: str, seed: int) -> list[str]:
    """Give distributed routers a gateway, and take it from half of them again; the outcomes."""
    mine = routers[seed::WORKERS]

    def one(number: int) -> None:
        for router in mine[number::THREADS]:
            core.lead_out(router, network, ADMIN)
            if number % 2:
                core.update("router", router, ADMIN, external_gateway_info=None)

    with core_at(url) as core:
        return _in_threads(one)


def want_moves(url: str, cases: list[dict[str, str]], seed: int) -> list[list[str]]:
    """Associate floating IPs while their ports move, others get their addresses, and the agents of
    hosts get other modes; the outcomes."""

    def one(core: Layer3, case: dict[str, str], number: int) -> None:
        if seed == 0:
            core.update("floatingip", case["floating"], ADMIN, port_id=case["port"])
        elif seed == 1:
            host = {"binding:host_id": ("one", "two")[number % 2]}
            core.update("port", case["port"], ADMIN, **host)
        elif seed == 2:
            pairs = [{"ip_address": case["address"]}] if number % 3 else []
            core.update("port", case["other"], ADMIN, allowed_address_pairs=pairs)
        else:
            l3_agent(core, "one", mode=("dvr", "dvr_no_external")[number % 2])

    with core_at(url) as core:
        return [
            [outcome(lambda: one(core, case, number))]  # noqa: B023
            for number, case in enumerate(cases)
        ]


def forward(core: Layer3, floating: str, port: str, number: int) -> None:
    """Forward a port of a floating IP to the same port of *port*."""
    core.create(
        "port_forwarding",
        floatingip_id=floating,
        protocol="tcp",
        external_port=number,
        internal_port=number,
        internal_port_id=port,
    )


def want_roles(url: str, routers: list[str], seed: int) -> list[str]:
    """Report of each router that the host of this process is active; the outcomes."""

    def one(core: Layer3, router: str) -> None:
        target = Ref(Kind.ROUTER, UUID(router))
        report = RoleReport(ref=target, revision=0, host=f"host{seed}", role=HaRole.ACTIVE)
        core.plugin("network").handle_reports([report])

    with core_at(url) as core:
        return [outcome(lambda router=router: one(core, router)) for router in routers]  # type: ignore[misc]
