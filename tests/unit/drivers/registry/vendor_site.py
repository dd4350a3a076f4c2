"""Distributions of a vendor on the import path."""

from pathlib import Path

from netfw.drivers.interface import InterfaceDriver

GOOD = """
from oslo_config import cfg
from netfw.drivers.base import DriverInfo
from netfw.drivers.interface import InterfaceDriver
from netfw.plan import Outcome

class Acme(InterfaceDriver):
    VERSION = 2
    OPTIONS = (
        cfg.StrOpt("switch", required=True, help="Address of the switch."),
        cfg.IntOpt("retries", default=3, min=1, help="How often to try."),
    )
    def __init__(self, switch, retries):
        self.switch, self.retries = switch, retries
    @classmethod
    def from_conf(cls, options, host):
        return cls(options["switch"], options["retries"])
    def describe(self):
        return DriverInfo("acme")
    def converge(self, update):
        return Outcome(done=frozenset(update))
    def devices(self):
        return {}
"""


class Site:
    """A directory on the path into which distributions are installed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def install(
        self,
        module: str,
        code: str,
        *,
        name: str,
        distribution: str,
        cls: str,
        group: str = InterfaceDriver.GROUP,
    ) -> None:
        (self.directory / f"{module}.py").write_text(code)
        info = self.directory / f"{distribution.replace('-', '_')}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n"
        )
        (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {module}:{cls}\n")
