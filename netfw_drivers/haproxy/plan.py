"""Plan from the observed to the desired proxies.  Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from hashlib import blake2s
from pathlib import Path

from attrs import field, frozen

from netfw.drivers.metadata import MetadataKey, MetadataProxy
from netfw.drivers.values.keys import NetworkKey
from netfw.errors import Conflict, InvalidInput, NetfwError, NotFound
from netfw.linux.process.supervised_program import ProcessKey, Program
from netfw.linux.sockets.values import Listener
from netfw.plan import Operation, Plan, Stage, Update
from netfw_drivers.haproxy.config import ListenAddress, listen_addresses, render_config
from netfw_drivers.haproxy.settings import Settings

BACKEND = "haproxy"
CONFIGURATION = "NETFW_CONFIGURATION"
"""Environment variable with the digest of the configuration: another one is another program."""


@frozen(kw_only=True)
class RunningProxy:
    """Process of a proxy."""

    digest: str
    namespace: Hashable
    """Identity of its namespace, which another one may have replaced under the same name."""
    sockets: frozenset[int] = field(default=frozenset(), repr=False)


@frozen
class Found:
    """Observed state of one proxy."""

    running: RunningProxy | None = None
    text: str | None = None
    """Text of its configuration."""
    remains: bool = False
    """Other files of it exist."""


@frozen
class ObservedNamespace:
    """Identity of a namespace, and its listeners."""

    identity: Hashable
    listeners: frozenset[Listener] = frozenset()


@frozen(kw_only=True)
class Observed:
    """Observed proxies and namespaces, and the settings with numbers of groups."""

    settings: Settings
    found: Mapping[MetadataKey, Found] = field(factory=dict)
    namespaces: Mapping[str, ObservedNamespace] = field(factory=dict)


@frozen
class HaproxySpec:
    """Validated specification of a proxy."""

    proxy: MetadataProxy
    listen_addresses: tuple[ListenAddress, ...]
    text: str
    program: Program = field(hash=False)


@frozen
class StopProxy:
    """Stop a process that another one will replace."""

    key: MetadataKey


@frozen
class RemoveProxy:
    """Stop a process, and remove its files."""

    key: MetadataKey


@frozen
class StartProxy:
    """Write a configuration, and start a process with it."""

    key: MetadataKey
    spec: HaproxySpec


@frozen
class WriteConfig:
    """Write the configuration that the process runs with already."""

    key: MetadataKey
    text: str


Step = StopProxy | RemoveProxy | StartProxy | WriteConfig


def process_key(key: MetadataKey) -> ProcessKey:
    """Return the key of the process."""
    if isinstance(key, NetworkKey):
        return ProcessKey("network", str(key.network))
    return ProcessKey("router", str(key.router))


def config_path(directory: Path, key: MetadataKey) -> Path:
    """Return the path of the configuration, beside the pid file."""
    process = process_key(key)
    return directory / process.service / f"{process.id}.conf"


def make_spec(key: MetadataKey, proxy: MetadataProxy, settings: Settings) -> HaproxySpec:
    """Render *proxy*.

    :raises InvalidInput: it is impossible.
    """
    text = render_config(key, proxy, settings)
    path = config_path(settings.directory, key)
    program = Program(
        argv=("haproxy", "-db", "-f", str(path)),
        namespace=proxy.netns,
        environment={CONFIGURATION: blake2s(text.encode(), digest_size=16).hexdigest()},
        log=settings.log_file,
        on_death=settings.on_death,
    )
    return HaproxySpec(proxy, listen_addresses(proxy, settings), text, program)


def plan_proxies(update: Update[MetadataKey, MetadataProxy], observed: Observed) -> Plan:
    """Plan removals, then stops, then starts: one update can move a listen address."""
    specs, refused = _make_specs(update, observed)
    leaving = _leaving(update, observed)
    starting, conflicts = _starting(specs, leaving, observed)
    steps: list[Step] = [RemoveProxy(key) for key in leaving]
    steps += [StopProxy(key) for key in starting if _found(observed, key).running is not None]
    steps += [StartProxy(key, specs[key]) for key in starting]
    steps += [
        WriteConfig(key, spec.text)
        for key, spec in specs.items()
        if key not in starting and key not in conflicts
        if _found(observed, key).text != spec.text
    ]
    return Plan(
        stages=[Stage((_operation(step),)) for step in steps], refused={**refused, **conflicts}
    )


def _make_specs(
    update: Update[MetadataKey, MetadataProxy], observed: Observed
) -> tuple[dict[MetadataKey, HaproxySpec], dict[MetadataKey, NetfwError]]:
    specs: dict[MetadataKey, HaproxySpec] = {}
    refused: dict[MetadataKey, NetfwError] = {}
    for key, proxy in update.put.items():
        try:
            specs[key] = make_spec(key, proxy, observed.settings)
        except InvalidInput as error:
            refused[key] = error
            continue
        if proxy.netns not in observed.namespaces:
            del specs[key]
            refused[key] = NotFound(
                f"there is no network namespace {proxy.netns} for the metadata proxy of {key}: "
                "the agent that serves it creates it"
            )
    return specs, refused


def _leaving(
    update: Update[MetadataKey, MetadataProxy], observed: Observed
) -> tuple[MetadataKey, ...]:
    """Return the present proxies that the update removes."""
    there = {key for key, found in observed.found.items() if found != Found()}
    rest = there - update.put.keys() - update.keep if update.complete else set()
    return tuple(sorted((there & update.drop) | rest, key=str))


def _starting(
    specs: Mapping[MetadataKey, HaproxySpec], leaving: Iterable[MetadataKey], observed: Observed
) -> tuple[tuple[MetadataKey, ...], dict[MetadataKey, NetfwError]]:
    """Return the keys to start, and those that cannot start since their address is taken.

    A key that cannot start keeps its present addresses, which may conflict with other keys.
    """
    conflicts: dict[MetadataKey, NetfwError] = {}
    while True:
        starting = tuple(
            key
            for key, spec in specs.items()
            if key not in conflicts and not _fits(spec, _found(observed, key), observed)
        )
        going = {*leaving, *starting}
        running = (_found(observed, key).running for key in going)
        freed = frozenset(inode for each in running if each for inode in each.sockets)
        more = dict(_conflicts({key: specs[key] for key in starting}, freed, observed))
        if not more:
            return starting, conflicts
        conflicts |= more


def _fits(spec: HaproxySpec, found: Found, observed: Observed) -> bool:
    """Return whether it runs with this configuration, in the present namespace of that name."""
    running = found.running
    if running is None or running.digest != spec.program.digest():
        return False
    return running.namespace == observed.namespaces[spec.proxy.netns].identity


def _conflicts(
    specs: Mapping[MetadataKey, HaproxySpec], freed: frozenset[int], observed: Observed
) -> Iterator[tuple[MetadataKey, NetfwError]]:
    given: dict[tuple[str, ListenAddress], MetadataKey] = {}
    for key, spec in specs.items():
        netns, listen_addresses = spec.proxy.netns, spec.listen_addresses
        listeners = [
            each for each in observed.namespaces[netns].listeners if each.inode not in freed
        ]
        taken = [address for address in listen_addresses if _is_taken(address, listeners)]
        rivals = [
            given[netns, address] for address in listen_addresses if (netns, address) in given
        ]
        if taken:
            yield (
                key,
                Conflict(
                    f"another process listens at {taken[0]} in {netns} already: "
                    f"find it with: ip netns exec {netns} ss -ltnp"
                ),
            )
        elif rivals:
            yield key, Conflict(f"{rivals[0]} listens at the same address in {netns}")
        else:
            given |= {(netns, address): key for address in listen_addresses}


def _is_taken(address: ListenAddress, listeners: Iterable[Listener]) -> bool:
    return any(each.is_in_the_way_of(address.address, address.port) for each in listeners)


def _found(observed: Observed, key: MetadataKey) -> Found:
    return observed.found.get(key) or Found()


def _operation(step: Step) -> Operation:
    return Operation(BACKEND, _text(step), {step.key}, step)


def _text(step: Step) -> str:
    match step:
        case StartProxy(key, spec):
            listen_addresses = ", ".join(map(str, spec.listen_addresses))
            return f"start the proxy of {key} in {spec.proxy.netns} at {listen_addresses}"
        case StopProxy(key):
            return f"end the proxy of {key}, which runs with another configuration"
        case RemoveProxy(key):
            return f"end the proxy of {key} and remove its files"
        case WriteConfig(key):
            return f"write the configuration of {key} again: it was changed"
