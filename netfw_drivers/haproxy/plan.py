"""What has to be done to have the wanted proxies.  Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from hashlib import blake2s
from pathlib import Path

from attrs import field, frozen

from netfw.drivers.keys import NetworkKey
from netfw.drivers.metadata import MetadataKey, MetadataProxy
from netfw.errors import Conflict, InvalidInput, NetfwError, NotFound
from netfw.linux.process.program import ProcessKey, Program
from netfw.linux.sockets.values import Listener
from netfw.plan import Operation, Plan, Stage, Update
from netfw_drivers.haproxy.config import Place, places_of, render_config
from netfw_drivers.haproxy.settings import Settings

BACKEND = "haproxy"
CONFIGURATION = "NETFW_CONFIGURATION"
"""Environment variable that makes programs with different configurations different."""


@frozen(kw_only=True)
class Running:
    """A proxy's process."""

    digest: str
    namespace: Hashable
    """Which namespace it is in, whatever has the name by now."""
    sockets: frozenset[int] = field(default=frozenset(), repr=False)


@frozen
class Found:
    """What there is of one proxy."""

    running: Running | None = None
    text: str | None = None
    """Of its configuration."""
    remains: bool = False
    """There are other files."""


@frozen
class NamespaceFacts:
    """A namespace: which one it is, and who listens there."""

    identity: Hashable
    listeners: frozenset[Listener] = frozenset()


@frozen(kw_only=True)
class Observed:
    """What the machine has, and the settings as they are there: groups have numbers."""

    settings: Settings
    found: Mapping[MetadataKey, Found] = field(factory=dict)
    grounds: Mapping[str, NamespaceFacts] = field(factory=dict)


@frozen
class HaproxySpec:
    """A proxy that can be, as it shall run."""

    proxy: MetadataProxy
    places: tuple[Place, ...]
    text: str
    program: Program = field(hash=False)


@frozen
class StopProxy:
    """End a process; it is to be followed by another one."""

    key: MetadataKey


@frozen
class RemoveProxy:
    """End a process, and remove its files."""

    key: MetadataKey


@frozen
class StartProxy:
    """Write a configuration, and start a process on it."""

    key: MetadataKey
    wish: HaproxySpec


@frozen
class WriteConfig:
    """Write the configuration that the process runs on already."""

    key: MetadataKey
    text: str


Step = StopProxy | RemoveProxy | StartProxy | WriteConfig


def process_key(key: MetadataKey) -> ProcessKey:
    """What the process is called."""
    if isinstance(key, NetworkKey):
        return ProcessKey("network", str(key.network))
    return ProcessKey("router", str(key.router))


def config_path(directory: Path, key: MetadataKey) -> Path:
    """Where the configuration is, beside the pid file."""
    process = process_key(key)
    return directory / process.service / f"{process.id}.conf"


def wish_for(key: MetadataKey, proxy: MetadataProxy, settings: Settings) -> HaproxySpec:
    """How *proxy* shall run.

    :raises InvalidInput: it cannot.
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
    return HaproxySpec(proxy, places_of(proxy, settings), text, program)


def plan_proxies(update: Update[MetadataKey, MetadataProxy], observed: Observed) -> Plan:
    """Removals first, then ends, then beginnings: a place can change hands in one update."""
    wishes, refused = _wishes(update, observed)
    leaving = _leaving(update, observed)
    starting, conflicts = _starting(wishes, leaving, observed)
    steps: list[Step] = [RemoveProxy(key) for key in leaving]
    steps += [StopProxy(key) for key in starting if _found(observed, key).running is not None]
    steps += [StartProxy(key, wishes[key]) for key in starting]
    steps += [
        WriteConfig(key, wish.text)
        for key, wish in wishes.items()
        if key not in starting and key not in conflicts
        if _found(observed, key).text != wish.text
    ]
    return Plan(
        stages=[Stage((_operation(step),)) for step in steps], refused={**refused, **conflicts}
    )


def _wishes(
    update: Update[MetadataKey, MetadataProxy], observed: Observed
) -> tuple[dict[MetadataKey, HaproxySpec], dict[MetadataKey, NetfwError]]:
    wishes: dict[MetadataKey, HaproxySpec] = {}
    refused: dict[MetadataKey, NetfwError] = {}
    for key, proxy in update.put.items():
        try:
            wishes[key] = wish_for(key, proxy, observed.settings)
        except InvalidInput as error:
            refused[key] = error
            continue
        if proxy.netns not in observed.grounds:
            del wishes[key]
            refused[key] = NotFound(
                f"there is no network namespace {proxy.netns} for the metadata proxy of {key}: "
                "it is made by whoever serves it"
            )
    return wishes, refused


def _leaving(
    update: Update[MetadataKey, MetadataProxy], observed: Observed
) -> tuple[MetadataKey, ...]:
    """Of what is there: what shall be gone."""
    there = {key for key, found in observed.found.items() if found != Found()}
    rest = there - update.put.keys() - update.keep if update.complete else set()
    return tuple(sorted((there & update.drop) | rest, key=str))


def _starting(
    wishes: Mapping[MetadataKey, HaproxySpec], leaving: Iterable[MetadataKey], observed: Observed
) -> tuple[tuple[MetadataKey, ...], dict[MetadataKey, NetfwError]]:
    """Who does not run as it should, and can; and who cannot, because its place is taken.

    Whoever cannot keeps what it has, so that others may be refused because of it.
    """
    conflicts: dict[MetadataKey, NetfwError] = {}
    while True:
        starting = tuple(
            key
            for key, wish in wishes.items()
            if key not in conflicts and not _fits(wish, _found(observed, key), observed)
        )
        going = {*leaving, *starting}
        running = (_found(observed, key).running for key in going)
        freed = frozenset(inode for each in running if each for inode in each.sockets)
        more = dict(_conflicts({key: wishes[key] for key in starting}, freed, observed))
        if not more:
            return starting, conflicts
        conflicts |= more


def _fits(wish: HaproxySpec, found: Found, observed: Observed) -> bool:
    """Whether it runs on this configuration, in the namespace that has the name now."""
    running = found.running
    if running is None or running.digest != wish.program.digest():
        return False
    return running.namespace == observed.grounds[wish.proxy.netns].identity


def _conflicts(
    wishes: Mapping[MetadataKey, HaproxySpec], freed: frozenset[int], observed: Observed
) -> Iterator[tuple[MetadataKey, NetfwError]]:
    given: dict[tuple[str, Place], MetadataKey] = {}
    for key, wish in wishes.items():
        netns, places = wish.proxy.netns, wish.places
        listeners = [each for each in observed.grounds[netns].listeners if each.inode not in freed]
        taken = [place for place in places if _is_taken(place, listeners)]
        rivals = [given[netns, place] for place in places if (netns, place) in given]
        if taken:
            yield (
                key,
                Conflict(
                    f"somebody listens at {taken[0]} in {netns} already: "
                    f"find out who with: ip netns exec {netns} ss -ltnp"
                ),
            )
        elif rivals:
            yield key, Conflict(f"{rivals[0]} shall listen at the same place in {netns}")
        else:
            given |= {(netns, place): key for place in places}


def _is_taken(place: Place, listeners: Iterable[Listener]) -> bool:
    return any(each.is_in_the_way_of(place.address, place.port) for each in listeners)


def _found(observed: Observed, key: MetadataKey) -> Found:
    return observed.found.get(key) or Found()


def _operation(step: Step) -> Operation:
    return Operation(BACKEND, _text(step), {step.key}, step)


def _text(step: Step) -> str:
    match step:
        case StartProxy(key, wish):
            places = ", ".join(map(str, wish.places))
            return f"start the proxy of {key} in {wish.proxy.netns} at {places}"
        case StopProxy(key):
            return f"end the proxy of {key}, which runs on another configuration"
        case RemoveProxy(key):
            return f"end the proxy of {key} and remove its files"
        case WriteConfig(key):
            return f"write the configuration of {key}, which somebody changed, again"
