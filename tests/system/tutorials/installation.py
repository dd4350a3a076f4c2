"""What readers of the tutorials have: a clone of netfw, an interpreter, and a package index.

There is no network in the sandbox.  In the place of the index is a directory with the packages of
this environment, except netfw, which is installed as the page says.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[3]
SCRIPTS = {"openstack": "openstackclient.shell:main", "pytest": "pytest:main"}
"""Scripts of other packages that the pages use."""
MARK = "NETFW_TUTORIAL"
"""Variable of the environment by which the processes of a tutorial are found."""


def clone(target: Path) -> None:
    """Copy the files of the repository that are needed to install it."""
    paths = ("netfw", "netfw_drivers", "setup.cfg", "pyproject.toml", "entry_points.txt")
    listed = ["git", "ls-files", "-z", "-co", "--exclude-standard", *paths, "README.md", "LICENSE"]
    files = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in files.split("\0")[:-1]:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target / name)


def provide_packages(target: Path) -> dict[str, str]:
    """Link the packages to *target*; return the environment in which pip and scripts find them."""
    scripts = target / "bin"
    scripts.mkdir(parents=True)
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        if not each.name.startswith(("netfw", "__editable__")):
            (target / each.name).symlink_to(each)
    for name, entry in SCRIPTS.items():
        module, function = entry.split(":")
        body = f"import sys\nfrom {module} import {function}\nsys.exit({function}())\n"
        (scripts / name).write_text(f"#!/usr/bin/env python3\n{body}")
        (scripts / name).chmod(0o755)
    base = Path(sys._base_executable).parent  # type: ignore[attr-defined]
    return {
        "PATH": os.pathsep.join([str(scripts), str(base), os.environ["PATH"]]),
        "PYTHONPATH": str(target),
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # "no" is false, so that setuptools is found
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
        "LANG": "C.UTF-8",
        "COLUMNS": "160",
    }


def processes(mark: str) -> list[str]:
    """Return the command lines of the processes with *mark* in their environment."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (each / "environ").read_bytes():
                found.append((each / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue  # it has ended
    return found
