"""All agents of two hosts, each with a token of its own that is valid for its host and service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from netfw.cli.demo.server import Cloud, make_cloud
from netfw.testing.lab import sandbox
from netfw.testing.lab.services.fault_proxy import FaultProxy
from netfw.testing.lab.wait import wait_until
from tests.system.dhcp.environment import Clouds, DhcpNet, fetch6
from tests.system.file_hosts import start_all, stop_all

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]
ADDRESS = ("127.0.0.1", 24310)
LISTEN = f"tcp:{ADDRESS[0]}:{ADDRESS[1]}"
SERVICES = ("l2", "dhcp", "metadata", "l3")


def token(host: str, service: str) -> str:
    return f"{host} {host}-{service}-0123456789abcdef {service}\n"


def write(path: Path, text: str) -> Path:
    path.touch(mode=0o600)
    path.write_text(text)
    return path


def give_tokens(cloud: Cloud, tokens: Path) -> None:
    """Give each agent its own token."""
    lines = []
    for host in cloud.hosts:
        for service, agent in zip(SERVICES, host.agents, strict=True):
            line = token(host.host.name, service)
            lines.append(line)
            own = write(tokens.parent / f"{host.host.name}-{service}", line)
            agent.options["socket"] = {"connect": LISTEN, "token_file": own}
            agent.options["agent"]["report_interval"] = 1
    write(tokens, "".join(lines))


@pytest.fixture(scope="module")
def cloud(clouds: Clouds, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    sandbox.require()
    clouds.close()
    directory = tmp_path_factory.mktemp("t")
    tokens, relay = directory / "tokens", directory / "relay"
    with ExitStack() as stack:
        options = {"socket": {"listen": LISTEN, "token_file": tokens}}
        made = stack.enter_context(make_cloud(options))
        give_tokens(made, tokens)
        made.server.start()
        stack.callback(FaultProxy(str(relay), ADDRESS).close)
        for host in made.hosts:  # the loopback address of each leads to that of the server
            stack.callback(host.host.call(FaultProxy, ADDRESS, str(relay)).close)
            host.service.start()
        agents = [agent for host in made.hosts for agent in host.agents]
        start_all(*agents)
        wait_until(lambda: sum(each.is_alive for each in made.network.agents()) == len(agents))
        yield made
        stop_all(*agents)
        log = made.server.log.read_text()
        assert "refused: credentials of" not in log, log


@pytest.mark.spec("RPC-06")
def test_agents_serve_with_tokens_of_their_host_and_service(cloud: Cloud) -> None:
    with DhcpNet(cloud, "tokens") as net:
        subnet = net.subnet(4)
        for host in (0, 1):
            _, client, _ = net.boot(host, device_id=f"vm-{host}")
            answer = wait_until(lambda at=client.instance: fetch6(at), "the service answers")
            assert answer.split()[0] == f"vm-{host}"
        router = cloud.network.create_router(name="tokens")
        cloud.network.add_interface_to_router(router.id, subnet=subnet.id)
        wait_until(lambda: cloud.network.get_router(router.id).status == "ACTIVE")
        cloud.network.remove_interface_from_router(router.id, subnet=subnet.id)
        cloud.network.delete_router(router)
