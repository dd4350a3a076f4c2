"""Accepting connections while the server stops."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator

import pytest

from netfw_drivers.transports.sockets.listen_sockets import ListenSocket


@pytest.fixture
def listening() -> Iterator[ListenSocket]:
    with socket.create_server(("127.0.0.1", 0)) as opened:
        yield ListenSocket(opened, "test")


def test_a_connection_is_accepted(listening: ListenSocket) -> None:
    async def work() -> None:
        accepting = asyncio.ensure_future(listening.accept())
        await asyncio.sleep(0)
        with socket.create_connection(listening.socket.getsockname()) as client:
            accepted = await accepting
            with accepted:
                assert accepted.getpeername() == client.getsockname()
                assert not accepted.getblocking()

    asyncio.run(work())


def test_no_connection_is_lost_by_a_cancellation_at_the_same_moment(
    listening: ListenSocket,
) -> None:
    # The cancellation comes after the loop has seen the client, and before the task goes on.

    async def work() -> None:
        loop = asyncio.get_running_loop()
        accepting = asyncio.ensure_future(listening.accept())
        await asyncio.sleep(0)  # it waits for clients now
        with socket.create_connection(listening.socket.getsockname()):

            def cancel_next() -> None:  # runs before the loop handles the client
                thread = threading.Thread(
                    target=loop.call_soon_threadsafe, args=(accepting.cancel,)
                )
                thread.start()
                thread.join()

            loop.call_soon(cancel_next)
            await asyncio.wait([accepting])
        assert accepting.cancelled()
        listening.socket.accept()[0].close()  # the client is still to be accepted

    asyncio.run(work())
