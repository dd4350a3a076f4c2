"""An os-ken application that owns the connection, and writes netfw's flows through it.

``python osken_application.py PORT`` listens as os-ken does and prints what happens, a line each.
It reads commands from its standard input: a number of flows to have, ``refused`` or ``end``.
"""

import os
import sys
import threading
import time
from typing import Any, ClassVar

from os_ken import cfg
from os_ken.base.app_manager import AppManager, OSKenApp
from os_ken.controller import ofp_event
from os_ken.controller.handler import MAIN_DISPATCHER, set_ev_cls
from os_ken.ofproto import ofproto_v1_4

from netfw import flows as of
from netfw.errors import BackendUnavailable, OperationRefused
from netfw.ovs.openflow import CookieSpace, Drift, FlowMirror, OpenFlow, group_of
from netfw.ovs.osken import DatapathConnection

OWN = CookieSpace(0x77, 0xFF)


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def flow(number: int, *actions: of.Action) -> of.Flow:
    return of.Flow(
        table=5,
        priority=9,
        match=of.tcp() & of.tcp_dst(number + 1),
        actions=(*actions, of.output(1)),
        cookie=0x77,
    )


class Writer(OSKenApp):
    """Counts the barrier replies of its own, and obeys commands on netfw's client."""

    OFP_VERSIONS: ClassVar = [ofproto_v1_4.OFP_VERSION]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.current: tuple[Any, FlowMirror, OpenFlow] | None = None
        threading.Thread(target=self.obey, daemon=True).start()

    @set_ev_cls(ofp_event.EventOFPStateChange, MAIN_DISPATCHER)
    def on_state(self, ev: Any) -> None:
        client = OpenFlow(DatapathConnection(ev.datapath, timeout=5))
        mirror = FlowMirror(client, self.drifted)
        mirror.wait_current()
        self.current = ev.datapath, mirror, client
        say("ready", len(mirror))

    @set_ev_cls(ofp_event.EventOFPDescStatsReply, MAIN_DISPATCHER)
    def on_description(self, ev: Any) -> None:
        say("own", ev.msg.body.hw_desc.decode())

    def obey(self) -> None:
        for line in sys.stdin:
            assert self.current is not None
            try:
                self.execute(line.strip(), *self.current)
            except BackendUnavailable as exc:
                say("unavailable", exc)
            except OperationRefused as exc:
                say("refused", exc)
        os._exit(0)  # os-ken's threads never end

    def execute(self, command: str, datapath: Any, mirror: FlowMirror, client: OpenFlow) -> None:
        if command == "refused":
            mirror.converge({"wrong": group_of(flow(60_000, of.Meter(99)))})
        elif command == "own":
            datapath.send_msg(datapath.ofproto_parser.OFPDescStatsRequest(datapath, 0))
        else:
            limit = of.PacketLimit(3, 100, 100)
            flows = [flow(number, of.limited(limit)) for number in range(int(command))]
            start = time.monotonic()
            mirror.converge({"flows": group_of(*flows)}, complete=OWN)
            say("has", len(client.flows(OWN)), f"{time.monotonic() - start:.3f}")

    def drifted(self, drift: Drift) -> None:
        say("drift", *drift.owners)


if __name__ == "__main__":
    arguments = ["--ofp-listen-host", "127.0.0.1", "--ofp-tcp-listen-port", sys.argv[1]]
    cfg.CONF(args=arguments, project="os_ken", default_config_files=[])
    AppManager.run_apps(["tests.lab.ovs.openflow.osken_application"])
