"""Write the man pages of all console scripts and of the configuration files of daemons.

man1, man8  a page per console script of entry_points.txt, from the parser of its arguments
man5        a page per configuration file of a daemon, from the options that it reads

    .venv/bin/python tools/man_pages.py DIRECTORY
"""

from __future__ import annotations

import argparse
import configparser
import importlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Final

from argparse_manpage.manpage import Manpage
from attrs import frozen

ROOT = Path(__file__).parents[1]
CONFIGURATION: Final = {
    "netfw-dhcp-agent": "netfw.dhcp_agent",
    "netfw-l3-agent": "netfw.l3_agent",
    "netfw-metadata-agent": "netfw.metadata_agent",
    "netfw-ovs-agent": "netfw.ovs_agent",
    "netfw-server": "netfw.netfw_server",
}
"""Daemons, and the namespace of oslo.config that has the options of each."""
SPHINX: Final = """\
project = "netfw"
extensions = ["oslo_config.sphinxext"]
root_doc = "index"
man_pages = {pages!r}
"""
OPTIONS_PAGE: Final = """\
{title}
{line}

Synopsis
--------

``/etc/netfw/{file}``

Description
-----------

Options of :manpage:`{program}(8)`.  ``--config-file`` names the file; several may be given, and
later ones win.  A comment has a line of its own.

.. show-options::

   {namespace}

See also
--------

:manpage:`{program}(8)`
"""


@frozen
class ConsoleScript:
    """A console script of entry_points.txt."""

    name: str
    module: str
    function: str

    def parser(self) -> argparse.ArgumentParser:
        """Build the parser of its arguments, by the function beside its main function."""
        make = getattr(
            importlib.import_module(self.module), self.function.replace("main", "parser")
        )
        made: argparse.ArgumentParser = make()
        return made

    @property
    def section(self) -> int:
        """Section of the manual: 8 has daemons."""
        return 8 if self.name in CONFIGURATION else 1


def console_scripts() -> Iterator[ConsoleScript]:
    points = configparser.ConfigParser()
    points.read(ROOT / "entry_points.txt")
    for name, value in points["console_scripts"].items():
        yield ConsoleScript(name, *value.split(":"))


def command_page(script: ConsoleScript) -> str:
    parser = script.parser()
    summary = (parser.description or "").rstrip(".")
    page = Manpage(
        parser,
        {
            "project_name": "netfw",
            "version": version("netfw"),
            "description": summary[0].lower() + summary[1:],
            "manual_section": script.section,
            "manual_title": "netfw",
        },
    )
    if script.name in CONFIGURATION:
        files = f"/etc/netfw/{file_name(script.name)}: see {script.name}.conf(5)"
        page.add_section("FILES", ">", files)
    return f"{page}\n"


def file_name(program: str) -> str:
    return f"{program.removeprefix('netfw-')}.conf"


def write_options_pages(directory: Path) -> None:
    """Write the pages of configuration files, by Sphinx; a warning is an error."""
    pages = [
        (name, f"{name}.conf", f"configuration of {name}", [], 5) for name in sorted(CONFIGURATION)
    ]
    with tempfile.TemporaryDirectory(prefix="netfw-man-") as temporary:
        source = Path(temporary)
        (source / "conf.py").write_text(SPHINX.format(pages=pages))
        names = "".join(f"   {name}\n" for name in sorted(CONFIGURATION))
        (source / "index.rst").write_text(f"netfw\n=====\n\n.. toctree::\n\n{names}")
        for name, namespace in CONFIGURATION.items():
            title = f"{name}.conf"
            text = OPTIONS_PAGE.format(
                title=title,
                line="=" * len(title),
                file=file_name(name),
                program=name,
                namespace=namespace,
            )
            (source / f"{name}.rst").write_text(text)
        command = (sys.executable, "-m", "sphinx", "-q", "-W", "-b", "man")
        subprocess.run([*command, source, source / "made"], check=True)
        for page in (source / "made").glob("*.5"):
            (directory / page.name).write_text(page.read_text())


def main(directory: Path) -> None:
    for section in (1, 5, 8):
        (directory / f"man{section}").mkdir(parents=True, exist_ok=True)
    for script in console_scripts():
        page = directory / f"man{script.section}" / f"{script.name}.{script.section}"
        page.write_text(command_page(script))
    write_options_pages(directory / "man5")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
