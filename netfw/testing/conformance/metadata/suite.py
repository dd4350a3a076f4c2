"""The suite of `MetadataDriver`: subclass it, override the hooks, run pytest."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from ipaddress import IPv6Address, ip_address
from typing import ClassVar
from uuid import uuid4

import pytest
from attrs import evolve

from netfw.drivers.host_driver import HostCapability, HostDriver
from netfw.drivers.metadata import MetadataDriver, MetadataKey, MetadataProxy
from netfw.drivers.values.events import Event, ProcessDied
from netfw.drivers.values.keys import NetworkKey, RouterKey
from netfw.errors import Conflict, NotFound
from netfw.model.values.address import IpAddress
from netfw.model.values.ids import NetworkId, RouterId
from netfw.plan import Outcome, Update
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.common.reconciler import ReconcilerConformance
from netfw.testing.conformance.metadata.requests import (
    HONEST,
    SHAPED,
    SMUGGLED,
    SPELT,
    ReceivedRequest,
    header_mismatches,
    request,
)

METADATA = ip_address("169.254.169.254")
LINK_LOCAL = IPv6Address("fe80::a9fe:a9fe")


class MetadataDriverConformance(ReconcilerConformance[MetadataKey, MetadataProxy]):
    """The promises of :class:`MetadataDriver` and of its base classes.

    ``actual`` returns the proxy as the machine has it: its addresses and its network or router.
    For the remains of a proxy that does not listen it returns a proxy unlike the wanted one, not
    ``None``.
    """

    NAMESPACE: ClassVar[str] = "meta"
    DEVICE: ClassVar[str] = "tap-meta"
    """The device in each namespace to which the client is connected."""
    TIMEOUT: ClassVar[float] = 60.0
    """Seconds within which a dead proxy has to be restarted."""
    HOOKS: ClassVar[tuple[str, ...]] = (
        "make_namespace",
        "listen_addresses",
        "source",
        "ask",
        "received_requests",
        "process_identity",
        "kill",
        "traces",
        "excess",
    )

    def make_namespace(self, name: str) -> None:
        """Create a namespace with a client at ``DEVICE``, unless it exists."""
        raise NotImplementedError("override `make_namespace`")

    def listen_addresses(self, proxy: MetadataProxy) -> Collection[IpAddress]:
        """Return all addresses at which the client can reach *proxy*."""
        raise NotImplementedError("override `listen_addresses`")

    def source(self, proxy: MetadataProxy, address: IpAddress) -> IpAddress:
        """Return the source address of the client when it calls *address*."""
        raise NotImplementedError("override `source`")

    def ask(self, proxy: MetadataProxy, address: IpAddress, request: bytes) -> bytes:
        """Send *request* as the guest; return the answer until the proxy closes or is silent.

        Empty if no process listens.
        """
        raise NotImplementedError("override `ask`")

    def received_requests(self) -> Collection[ReceivedRequest]:
        """Return the requests that the metadata agent received since the last call.

        The agent answers every request with status 200 and the body ``metadata``.
        """
        raise NotImplementedError("override `received_requests`")

    def process_identity(self, key: MetadataKey, proxy: MetadataProxy) -> Hashable:
        """Return a value that differs when the proxy is restarted: its pid and start time."""
        raise NotImplementedError("override `process_identity`")

    def kill(self, key: MetadataKey, proxy: MetadataProxy) -> None:
        """Kill the proxy, as a crash would."""
        raise NotImplementedError("override `kill`")

    def traces(self, key: MetadataKey, proxy: MetadataProxy) -> Collection[str]:
        """Return the processes and files of *key*, found without the driver."""
        raise NotImplementedError("override `traces`")

    def excess(self, key: MetadataKey, proxy: MetadataProxy) -> Collection[str]:
        """Return the proxy's rights beyond those that the options of ``make_driver`` give it."""
        raise NotImplementedError("override `excess`")

    def examples(self, count: int) -> dict[MetadataKey, MetadataProxy]:
        examples: dict[MetadataKey, MetadataProxy] = {}
        for number in range(count):
            netns = f"{self.NAMESPACE}-{number}"
            self.make_namespace(netns)
            if number % 2:
                examples[RouterKey(RouterId(uuid4()))] = MetadataProxy(netns=netns, port=9697)
            else:
                examples[NetworkKey(NetworkId(uuid4()))] = MetadataProxy(
                    netns=netns, addresses=(METADATA,), device=self.DEVICE
                )
        return examples

    def changed(self, value: MetadataProxy) -> MetadataProxy:
        return MetadataProxy(
            netns=value.netns,
            port=value.port + 1,
            addresses=() if value.addresses else (METADATA,),
            device=None if value.device else self.DEVICE,
        )

    def edge_cases(self, value: MetadataProxy) -> Mapping[str, MetadataProxy]:
        beyond = ip_address("fd00::80")
        return {
            "port 1": evolve(value, port=1),
            "port 65535": evolve(value, port=65535),
            "an IPv6 address": evolve(value, addresses=(METADATA, beyond)),
            "an address twice": evolve(value, addresses=(METADATA, METADATA)),
            "link-local without a device": evolve(value, addresses=(LINK_LOCAL,), device=None),
            "a device that is not there": evolve(value, device="nowhere"),
        }

    def put(self, driver: MetadataDriver, count: int) -> dict[MetadataKey, MetadataProxy]:
        """Have *count* proxies."""
        things = self.examples(count)
        self.assert_done(driver.converge(Update(put=things)))
        self.received_requests()
        return things

    @proves(MetadataDriver, 1)
    def test_a_request_reaches_the_agent_with_its_source(self, driver: MetadataDriver) -> None:
        for key, proxy in self.put(driver, 2).items():
            assert self.listen_addresses(proxy)
            for address in self.listen_addresses(proxy):
                answer = self.ask(proxy, address, HONEST)
                assert b" 200 " in answer.partition(b"\r\n")[0], (proxy, address, answer)
                assert answer.endswith(b"metadata")
                (received,) = self.received_requests()
                assert received.line.startswith("GET /latest "), received
                assert not list(header_mismatches(received, key, self.source(proxy, address)))

    @proves(MetadataDriver, 1)
    def test_a_client_cannot_set_its_identity(self, driver: MetadataDriver) -> None:
        self.try_all(driver, SPELT)

    @proves(MetadataDriver, 1)
    def test_a_client_cannot_set_its_identity_by_malformed_requests(
        self, driver: MetadataDriver
    ) -> None:
        self.try_all(driver, SHAPED)

    @proves(MetadataDriver, 1)
    def test_a_client_cannot_hide_a_request_in_another(self, driver: MetadataDriver) -> None:
        self.try_all(driver, SMUGGLED)

    def try_all(self, driver: MetadataDriver, tricks: Mapping[str, bytes]) -> None:
        """Try each malformed request at each address, and check that valid requests still pass."""
        things = self.put(driver, 2)
        wrong = [
            f"{trick}, at {address} of {key}: {lie}"
            for key, proxy in things.items()
            for address in self.listen_addresses(proxy)
            for trick, request in tricks.items()
            for lie in self.lies(key, proxy, address, request)
        ]
        assert not wrong, "\n".join(wrong)

    def lies(
        self, key: MetadataKey, proxy: MetadataProxy, address: IpAddress, request: bytes
    ) -> Iterator[str]:
        """Yield what the agent wrongly receives of *request*, and of a valid one after it."""
        self.ask(proxy, address, request)
        answer = self.ask(proxy, address, HONEST)
        if not answer.endswith(b"metadata"):
            yield f"an honest request is answered {answer!r} afterwards"
        for received in self.received_requests():
            yield from header_mismatches(received, key, self.source(proxy, address))

    @proves(MetadataDriver, 1)
    def test_a_request_has_its_body(self, driver: MetadataDriver) -> None:
        ((_, proxy),) = self.put(driver, 1).items()
        head = b"POST /password HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 6"
        address = next(iter(self.listen_addresses(proxy)))
        assert self.ask(proxy, address, head + b"\r\n\r\nsecret").endswith(b"metadata")
        (received,) = self.received_requests()
        assert (received.line.split()[0], received.body) == ("POST", b"secret")

    @proves(MetadataDriver, 7)
    @pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "OPTIONS"])
    def test_a_body_of_a_method_without_one_is_not_forwarded(
        self, driver: MetadataDriver, method: str
    ) -> None:
        ((_, proxy),) = self.put(driver, 1).items()
        address = next(iter(self.listen_addresses(proxy)))
        line = f"{method} /latest HTTP/1.1".encode()
        length = b"Content-Length: %d" % len(HONEST)
        self.ask(proxy, address, request(length, line=line, body=HONEST))
        assert not [each.body for each in self.received_requests() if each.body]
        empty = request(b"Content-Length: 0")
        assert self.ask(proxy, address, empty).endswith(b"metadata"), "a length of 0 is no body"

    @proves(MetadataDriver, 2)
    def test_a_proxy_that_is_right_is_not_started_again(
        self, driver: MetadataDriver, make_driver: Callable[[], MetadataDriver]
    ) -> None:
        things = self.put(driver, 2)
        before = {key: self.process_identity(key, proxy) for key, proxy in things.items()}
        more = self.examples(3)
        (*_, (other, beside)) = more.items()
        driver.converge(Update(put={**things, other: beside}))
        driver.close()
        with_all = make_driver()
        self.assert_done(with_all.converge(Update(put={**things, other: beside}, complete=True)))
        assert {key: self.process_identity(key, proxy) for key, proxy in things.items()} == before
        with_all.close()

    @proves(MetadataDriver, 3)
    @pytest.mark.parametrize("adopted", [False, True])
    def test_a_proxy_that_dies_is_restarted_and_reported(
        self, make_driver: Callable[[], MetadataDriver], adopted: bool
    ) -> None:
        driver = make_driver()
        things = self.put(driver, 2)
        if adopted:
            driver.close()
            driver = make_driver()
            driver.converge(Update(put=things))
        self.require(driver, HostCapability.WATCH)
        events: list[Event] = []
        driver.watch(events.append)
        key, proxy = next(iter(things.items()))
        before = self.process_identity(key, proxy)
        self.kill(key, proxy)
        self.eventually(
            lambda: any(_tells(event, key) for event in events), "no event is announced"
        )
        self.eventually(lambda: self.actual(key, proxy) == proxy, "it does not come back")
        assert self.process_identity(key, proxy) != before
        self.assert_so(things)
        driver.close()

    def eventually(self, condition: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + self.TIMEOUT
        while not condition():
            assert time.monotonic() < deadline, otherwise
            time.sleep(0.01)

    @proves(MetadataDriver, 4)
    def test_a_dropped_proxy_leaves_nothing(self, driver: MetadataDriver) -> None:
        things = self.put(driver, 3)
        assert all(self.traces(key, proxy) for key, proxy in things.items())
        (one, first), *others = things.items()
        driver.converge(Update(drop=frozenset({one})))
        assert not self.traces(one, first)
        driver.gc(())
        for key, proxy in others:
            assert not self.traces(key, proxy)

    @proves(MetadataDriver, 5)
    def test_a_missing_namespace_concerns_its_proxy_alone(self, driver: MetadataDriver) -> None:
        (one, first), (two, second) = self.examples(2).items()
        lost = evolve(first, netns=f"{self.NAMESPACE}-no")
        outcome = driver.converge(Update(put={one: lost, two: second}))
        assert isinstance(outcome.failed.get(one), NotFound), outcome
        assert outcome.done == {two}
        self.assert_so({two: second})
        self.assert_held(driver, {two})
        assert not self.traces(one, lost)

    @proves(MetadataDriver, 6)
    def test_it_has_no_rights_beyond_its_options(self, driver: MetadataDriver) -> None:
        for key, proxy in self.put(driver, 2).items():
            assert not self.excess(key, proxy)
            assert self.ask(proxy, next(iter(self.listen_addresses(proxy))), HONEST), "and it works"

    def test_of_two_proxies_at_one_address_one_gets_it(self, driver: MetadataDriver) -> None:
        (one, first), (two, _) = self.examples(2).items()
        outcome = driver.converge(Update(put={one: first, two: first}))
        assert [type(error) for error in outcome.failed.values()] == [Conflict], outcome
        assert len(outcome.done) == 1
        self.assert_held(driver, outcome.done)
        self.assert_so(dict.fromkeys(outcome.done, first))

    def test_an_address_moves_from_proxy_to_proxy_in_one_update(
        self, driver: MetadataDriver
    ) -> None:
        (one, first), (two, second) = self.put(driver, 2).items()
        swapped = {one: second, two: first}
        self.assert_done(driver.converge(Update(put=swapped)))
        self.assert_so(swapped)
        self.assert_done(driver.converge(Update(put={two: second}, drop=frozenset({one}))))
        self.assert_so({two: second})
        self.assert_held(driver, {two})

    def test_different_proxies_can_be_converged_at_once(self, driver: MetadataDriver) -> None:
        things = self.examples(6)
        outcomes: list[Outcome[MetadataKey]] = []
        together = threading.Barrier(len(things))

        def work(key: MetadataKey, proxy: MetadataProxy) -> None:
            together.wait()
            outcomes.append(driver.converge(Update(put={key: proxy})))

        threads = [threading.Thread(target=work, args=item) for item in things.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [outcome.failed for outcome in outcomes] == [{}] * len(things)
        self.assert_so(things)
        self.assert_held(driver, things.keys())


def _tells(event: Event, key: MetadataKey) -> bool:
    return isinstance(event, ProcessDied) and key in event.keys


CONTRACTS = (HostDriver, MetadataDriver)
"""The contracts that the suite tests, besides `Reconciler` where the driver is one."""
