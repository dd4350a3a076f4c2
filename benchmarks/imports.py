"""What a program imports: listed by one run of it, and imported alone, to know what that costs."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.l2.rig import environment
from netfw.testing.lab.host import Host

_LIST = """
import importlib, json, sys
status = importlib.import_module(sys.argv[2]).main(sys.argv[3:])
names = [name for name, module in sys.modules.items() if module and name != "__main__"]
open(sys.argv[1], "w").write(json.dumps([sys.argv[2], *names]))
sys.exit(status)
"""
IMPORT = """
import importlib, json, sys
names = json.load(open(sys.argv[1]))
if "eventlet" not in names:
    sys.modules["eventlet"] = None
for name in names:
    try:
        importlib.import_module(name)
    except (ImportError, AttributeError):
        pass
"""
"""A program that imports the modules which the file of its first argument names."""


def list_modules(host: Host, agent: str, conf: Path) -> Path:
    """Write the names of all modules that the ready agent has imported to a file beside *conf*.

    The module *agent* is the first of them. Return the path of the file.

    :raises RuntimeError: the agent fails.
    """
    path = conf.with_name("modules.json")
    arguments = [str(path), agent, "--config-file", str(conf), "--once"]
    process = host.spawn([sys.executable, "-c", _LIST, *arguments], env=environment())
    if process.wait():
        raise RuntimeError(f"the agent ended with {process.returncode}")
    return path
