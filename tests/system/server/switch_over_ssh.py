"""A host of the lab as a switch that is configured over ssh."""

from __future__ import annotations

import socket
from pathlib import Path

from netfw.testing.lab.daemon import PrivateDaemon
from netfw.testing.lab.host import Host

SSHD = "/usr/sbin/sshd"
CONFIG = """
Port 22
ListenAddress {address}
HostKey {directory}/host_key
AuthorizedKeysFile {directory}/client_key.pub
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PrintMotd no
PrintLastLog no
PidFile none
"""


class SwitchOverSsh:
    """The Open vSwitch of *host*, and an sshd beside it that accepts the key of ``client_key``."""

    def __init__(self, host: Host, directory: Path) -> None:
        self.host, self.directory = host, directory
        self.address = str(host.address.ip)
        self.client_key = directory / "client_key"
        self._sshd = PrivateDaemon("sshd", directory / "sshd.log", host.spawn)
        for name in ("host_key", "client_key"):
            key = str(directory / name)
            host.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key])
        (directory / "sshd_config").write_text(
            CONFIG.format(address=self.address, directory=directory)
        )
        self._allow_root()
        (host.directory / "sshd").mkdir(mode=0o755)

    def _allow_root(self) -> None:
        """Give root, on this host alone, an account that is not locked."""
        accounts = self.directory / "shadow"
        accounts.write_text("root:*:19000:0:99999:7:::\nsshd:*:19000:0:99999:7:::\n")
        self.host.run(["mount", "--bind", str(accounts), "/etc/shadow"])

    def start(self) -> None:
        """Start sshd, and wait until it accepts connections."""
        self._sshd.run([SSHD, "-D", "-e", "-f", str(self.directory / "sshd_config")])
        self._sshd.wait_until(lambda: self.host.call(self._accepts), lambda: "no connection")

    def stop(self) -> None:
        """Stop sshd: the switch cannot be configured, and forwards as before."""
        self._sshd.stop()

    def log(self) -> str:
        """Return what sshd logged."""
        return self._sshd.log_tail()

    def column(self, port: str, name: str) -> str:
        """Return a column of a port of the switch."""
        return self.host.ovs.vsctl("get", "Port", port, name).strip()

    def _accepts(self) -> bool:
        try:
            socket.create_connection((self.address, 22), timeout=1).close()
        except OSError:
            return False
        return True
