"""``netfw lab``: creates hosts in namespaces of this machine, to try things on."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from netfw.cli.runtime.arguments import add_json_argument
from netfw.cli.runtime.tables import print_table
from netfw.errors import ConfigError, InvalidInput

DEFAULT = "lab"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    lab = commands.add_parser(
        "lab",
        help="hosts, switches and instances on this machine, in namespaces",
        description="Brings up hosts with their own network, Open vSwitch and /run, connected by a "
        "fabric. The machine's own network is never touched. No root needed where the kernel "
        "gives user namespaces to users.",
    )
    actions = lab.add_subparsers(metavar="ACTION", required=True)
    up = _action(actions, "up", bring_up, "bring a lab up; it stays until `lab down`")
    up.add_argument("--hosts", type=int, metavar="N", help="how many hosts (default: 3)")
    up.add_argument("--topology", type=Path, metavar="FILE", help="a TOML file that describes it")
    add_json_argument(up)
    show = _action(actions, "show", show_labs, "show what is up", name=None)
    add_json_argument(show)
    execute = _action(actions, "exec", execute_on, "run a command on a host or in an instance")
    _add_target(execute)
    execute.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")
    shell = _action(actions, "shell", open_shell, "open a shell on a host or in an instance")
    _add_target(shell)
    down = _action(actions, "down", take_down, "take a lab down")
    down.add_argument("--all", action="store_true", help="take all labs down")
    add_json_argument(down)
    run = actions.add_parser("run", help="run a command in a sandbox, an empty network of its own")
    run.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")
    run.set_defaults(func=run_in_sandbox)


def _action(
    actions: argparse._SubParsersAction[argparse.ArgumentParser],
    word: str,
    function: Any,
    about: str,
    name: str | None = DEFAULT,
) -> argparse.ArgumentParser:
    parser = actions.add_parser(word, help=about, description=about)
    parser.add_argument("--name", default=name, help=f"which lab (default: {name or 'all'})")
    parser.set_defaults(func=function)
    return parser


def _add_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target", metavar="HOST[/INSTANCE]", help="host1, host1/vm1, or host1/NAMESPACE"
    )


def bring_up(arguments: argparse.Namespace) -> int:
    from netfw.testing.lab import persistent, registry, topology

    document = _document(arguments)
    try:
        wanted = topology.read(document)
    except InvalidInput as exc:
        source = "--" if arguments.topology is None else f"{arguments.topology}: "
        raise ConfigError(f"{source}{exc}") from exc
    directory = registry.open_directory()
    persistent.up(directory, arguments.name, document)
    if arguments.json:
        print(json.dumps(persistent.show(directory, arguments.name), indent=2))
        return 0
    option = "" if arguments.name == DEFAULT else f" --name {arguments.name}"
    count = "one host" if wanted.hosts == 1 else f"{wanted.hosts} hosts"
    print(f"Lab {arguments.name!r} is up with {count}. Try:")
    print(f"  netfw lab show{option}")
    print(f"  netfw lab exec{option} host1 ovs-vsctl show")
    print(f"  netfw lab down{option}")
    return 0


def _document(arguments: argparse.Namespace) -> dict[str, Any]:
    if arguments.topology is None:
        return {"hosts": 3 if arguments.hosts is None else arguments.hosts}
    if arguments.hosts is not None:
        raise ConfigError("either --hosts or --topology: the file says how many hosts there are")
    import tomllib

    try:
        return tomllib.loads(arguments.topology.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{arguments.topology} cannot be read: {error}") from error


def show_labs(arguments: argparse.Namespace) -> int:
    from netfw.testing.lab import persistent, registry

    directory = registry.open_directory()
    names = [arguments.name] if arguments.name else [one.name for one in directory.all()]
    labs = [persistent.show(directory, name) for name in names]
    if arguments.json:
        print(json.dumps(labs, indent=2))
    elif not labs:
        print("No lab is up. Bring one up with: netfw lab up")
    else:
        headers = ("LAB", "HOST", "ADDRESS", "ADDRESS6", "FABRIC", "BRIDGES", "NAMESPACES")
        print_table(headers, [_cells(lab["name"], host) for lab in labs for host in lab["hosts"]])
    return 0


def _cells(lab: str, host: dict[str, Any]) -> tuple[str, ...]:
    fabric = "connected" if host["connected"] else "cut off"
    lists = (", ".join(host[key]) or "-" for key in ("bridges", "namespaces"))
    return (lab, host["name"], host["address"], host["address6"], fabric, *lists)


def execute_on(arguments: argparse.Namespace) -> int:
    return _run_on(arguments, _command(arguments))


def open_shell(arguments: argparse.Namespace) -> int:
    return _run_on(arguments, [os.environ.get("SHELL", "/bin/sh")])


def _run_on(arguments: argparse.Namespace, argv: list[str]) -> int:
    from netfw.testing.lab import persistent, registry

    host, _, namespace = arguments.target.partition("/")
    persistent.enter(registry.open_directory(), arguments.name, host, namespace or None)
    return persistent.run_inside(argv)


def take_down(arguments: argparse.Namespace) -> int:
    from netfw.testing.lab import persistent, registry

    directory = registry.open_directory()
    names = [one.name for one in directory.all()] if arguments.all else [arguments.name]
    for name in names:
        persistent.down(directory, name)
    if arguments.json:
        print(json.dumps({"down": names}))
        return 0
    for name in names:
        print(f"Lab {name!r} is down.")
    if not names:
        print("No lab is up.")
    return 0


def run_in_sandbox(arguments: argparse.Namespace) -> int:
    from netfw.testing.lab import sandbox

    sandbox.enter(_command(arguments))


def _command(arguments: argparse.Namespace) -> list[str]:
    words: list[str] = arguments.command
    argv = words[1:] if words[:1] == ["--"] else words
    if not argv:
        raise ConfigError("say which command to run")
    return argv
