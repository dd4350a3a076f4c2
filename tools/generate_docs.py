"""Write the documentation that is made from code; with --check, only say what is out of date.

docs/contracts/*.md        a page per contract, from its docstrings
docs/contracts/index.md    the list of them
docs/contracts/contracts.svg  a picture of them, with the drivers of entry_points.txt
docs/contracts/reconciler.md  the contract that drivers of hosts may implement beside their own
docs/contracts/values.md   the values that contracts share
docs/pipeline.md           the way of a packet through the bridges of the Open vSwitch driver
docs/api-resources.md      the resources of the API and their attributes
docs/api-errors.md         the types of errors of the API
docs/layers.svg            the layers, from .importlinter
docs/port-path.svg         the folders that a port passes, from docs/port-path.json
docs/python-api/*.md       a page per public package, for Sphinx's autodoc
docs/schemas/*.json        JSON Schema of topology files, and of the status files of agents
samples/conf/netfw.conf    every option of netfw and of the installed reference drivers
samples/conf/ovs-agent.conf  those that netfw-ovs-agent reads
samples/conf/dhcp-agent.conf  those that netfw-dhcp-agent reads
samples/conf/l3-agent.conf    those that netfw-l3-agent reads
samples/conf/metadata-agent.conf  those that netfw-metadata-agent reads
samples/conf/server.conf   those that netfw-server reads
samples/conf/policy.yaml   every policy rule of the API, as it is
"""

from __future__ import annotations

import ast
import inspect
import io
import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Generic, get_args, get_origin

import api_pages
import contract_diagram
import contract_values
import layer_diagram
import port_diagram
import suite_hooks
from oslo_config import cfg, generator

from netfw.agents.common.status_schema import status_schema
from netfw.drivers.base import Driver
from netfw.drivers.host_driver import HostDriver
from netfw.drivers.reconciler import Reconciler
from netfw.drivers.registry.loader import all_contracts
from netfw.server.api.api_reference import reference
from netfw.server.api.error_reference import render_error_types
from netfw.server.api.policy import rules
from netfw.server.api.resources import RESOURCES
from netfw.state.file.json_schema import topology_schema
from netfw_drivers.ovs.flow_counts import pipeline
from netfw_drivers.ovs.pipeline import tables, tunnel_tables

CONTRACTS = Path("docs/contracts")
RECONCILER, VALUES = "reconciler.md", contract_values.SHARED_PAGE
PIPELINE = Path("docs/pipeline.md")
API = Path("docs/api-resources.md")
ERRORS = Path("docs/api-errors.md")
TOPOLOGY_SCHEMA = Path("docs/schemas/topology.json")
STATUS_SCHEMA = Path("docs/schemas/agent-status.json")
POLICY = Path("samples/conf/policy.yaml")
SAMPLES = {
    Path("samples/conf/netfw.conf"): (
        *("netfw", "netfw.agents", "netfw.dhcp", "netfw.l3", "netfw.metadata"),
        *("netfw.server", "netfw.drivers"),
    ),
    Path("samples/conf/ovs-agent.conf"): ("netfw.ovs_agent",),
    Path("samples/conf/dhcp-agent.conf"): ("netfw.dhcp_agent",),
    Path("samples/conf/l3-agent.conf"): ("netfw.l3_agent",),
    Path("samples/conf/metadata-agent.conf"): ("netfw.metadata_agent",),
    Path("samples/conf/server.conf"): ("netfw.netfw_server",),
}


def markdown(docstring: str | None) -> str:
    """Return a docstring of netfw as Markdown, with its literals, roles and fields converted."""
    text = inspect.cleandoc(docstring or "")
    text = re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", text)
    text = re.sub(r"``(.+?)``", r"`\1`", text)
    text = re.sub(r"^:raises (\w+): *", r"* raises `\1`: ", text, flags=re.MULTILINE)
    return re.sub(r"(?<=\S)\n(\* raises )", r"\n\n\1", text, count=1)


def contract_page(kind: type[Driver]) -> str:
    group, version = getattr(kind, "GROUP", None), getattr(kind, "VERSION", None)
    place = "beside the contract of a host driver"
    if group is not None:
        place = f"entry-point group `{group}`, version {version}"
    lines = [
        f"# {kind.__name__}",
        "",
        f"Module `{kind.__module__}`, {place}.",
        "",
        *([f"*{contract_values.DRAFT}*", ""] if kind.DRAFT else []),
        markdown(kind.__doc__),
    ]
    for base in bases(kind):
        lines += ["", f"## Promises of every {base.__name__}", "", markdown(base.__doc__)]
    if issubclass(kind, HostDriver) and kind is not Reconciler:
        lines += ["", "## Promises of a driver that is a Reconciler, too", ""]
        lines += [f"It declares `HostCapability.PLAN`; its methods are on [a page]({RECONCILER})."]
        lines += ["", markdown(Reconciler.__doc__)]
    for name, member in methods(kind):
        abstract = getattr(member, "__isabstractmethod__", False)
        lines += [
            "",
            f"## {name}",
            "",
            "```python",
            f"def {name}{signature(kind, member)}",
            "```",
            "",
            f"*{'Required.' if abstract else 'Has a default.'}* {markdown(member.__doc__)}",
        ]
    lines += ["", markdown("\n".join(contract_values.values(signatures(kind), own_names())))]
    types = {**written_arguments(kind), "P": kind.__name__}
    lines += ["", markdown("\n".join(suite_hooks.hook_lines(kind, types)))]
    return "\n".join(lines).rstrip() + "\n"


def own_names() -> frozenset[str]:
    """Return the names of the contracts, which are no values."""
    return frozenset(each.__name__ for each in all_contracts())


def signatures(kind: type[Driver]) -> list[tuple[str, str]]:
    """Return the texts that name the values of a contract, each with its module."""
    found = [(kind.__module__, signature(kind, member)) for _, member in methods(kind)]
    found += [(member.__module__, signature(kind, member)) for _, member in methods(kind)]
    found.append((kind.__module__, written_bases(kind)))
    found.append((kind.__module__, named_in_docs(kind)))
    return found


def values_page(kinds: Iterable[type[Driver]]) -> str:
    """Return the page of the values that many contracts share, with all their fields."""
    named = [each for kind in (*kinds, Reconciler) for each in signatures(kind)]
    lines = [
        "# Values of contracts",
        "",
        "The values of the model and of plans that the methods of contracts take and give, with",
        "all their fields. Made from `netfw.model` and `netfw.plan`; `tools/generate_docs.py`",
        "writes this page. Values of one contract are on its own page.",
        markdown("\n".join(contract_values.shared_values(named, own_names()))),
    ]
    return "\n".join(lines).rstrip() + "\n"


def methods(kind: type[Driver]) -> Iterator[tuple[str, object]]:
    """Yield the public methods: first those that the contract itself adds, then inherited ones."""
    seen: set[str] = set()
    for ancestor in kind.__mro__:
        for name, raw in vars(ancestor).items():
            member = raw.__func__ if isinstance(raw, classmethod) else raw
            if name.startswith("_") or name in seen or not inspect.isfunction(member):
                continue
            seen.add(name)
            yield name, inspect.unwrap(member)


def bases(kind: type[Driver]) -> list[type[Driver]]:
    """Return the contracts that this one extends."""
    return [each for each in kind.__mro__[1:] if issubclass(each, Driver) and each is not Driver]


def written_bases(kind: type[Driver]) -> str:
    """Return the bases as the class statement has them: aliases lead to keys and values."""
    (statement,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(statement, ast.ClassDef)
    return " ".join(map(ast.unparse, statement.bases))


def written_arguments(kind: type[Driver]) -> dict[str, str]:
    """Return the names that the class statement has for the key and the value of a host driver."""
    found = re.findall(r"\bHostDriver\[(\w+), (\w+)\]", written_bases(kind))
    return {"K": found[0][0], "V": found[0][1]} if found and kind is not Reconciler else {}


def named_in_docs(kind: type[Driver]) -> str:
    """Return the names that the docstring has as code, such as the entries of a contract."""
    return " ".join(re.findall(r"``([A-Z]\w+)``", kind.__doc__ or ""))


def type_arguments(kind: type) -> dict[str, str]:
    """Return the names of the types that stand for the type variables of the bases."""
    found: dict[str, str] = {}
    for base in getattr(kind, "__orig_bases__", ()):
        origin = get_origin(base)
        if origin is not None and origin is not Generic:
            names = [each.__name__ for each in origin.__parameters__]
            found |= dict(zip(names, map(type_name, get_args(base)), strict=True))
            found |= {k: found.get(v, v) for k, v in type_arguments(origin).items()}
    return found


def type_name(argument: Any) -> str:
    return " | ".join(each.__name__ for each in get_args(argument) or (argument,))


def signature(kind: type[Driver], member: object) -> str:
    text = str(inspect.signature(member)).replace("'", "")  # type: ignore[arg-type]
    for name, actual in type_arguments(kind).items():
        text = re.sub(rf"\b{name}\b", actual, text)
    return text


def index_page(kinds: list[type[Driver]]) -> str:
    rows = [
        f"| [{kind.__name__}]({page_name(kind)}) | `{kind.GROUP}` | {summary(kind)} |"
        for kind in kinds
    ]
    return "\n".join(
        [
            "# Contracts",
            "",
            "What netfw promises to a driver, and a driver to netfw. Made from the docstrings of",
            "`netfw.drivers`; `tools/generate_docs.py` writes these pages.",
            "",
            "![Contracts of the server, of hosts, and between them](contracts.svg)",
            "",
            "| contract | entry-point group | what it does |",
            "| --- | --- | --- |",
            *rows,
            "",
            f"A driver of a host may also be a [Reconciler]({RECONCILER}). Values that contracts",
            f"share, such as ports, segments and plans, are [on one page]({VALUES}).",
            "",
            "```{toctree}",
            ":hidden:",
            "",
            *(page_name(kind).removesuffix(".md") for kind in kinds),
            RECONCILER.removesuffix(".md"),
            VALUES.removesuffix(".md"),
            "```",
            "",
        ]
    )


def page_name(kind: type[Driver]) -> str:
    return f"{kind.GROUP.removeprefix('netfw.')}.md"


def summary(kind: type[Driver]) -> str:
    draft = f"*{contract_values.DRAFT}* " if kind.DRAFT else ""
    return draft + markdown(kind.__doc__).partition("\n")[0]


def sample(namespaces: Iterable[str]) -> str:
    """Return a sample configuration, as oslo.config's generator writes it."""
    conf = cfg.ConfigOpts()
    generator.register_cli_opts(conf)
    chosen = [word for name in namespaces for word in ("--namespace", name)]
    conf([*chosen, "--wrap-width", "96"])
    text = io.StringIO()
    generator.generate(conf, output_file=text)
    return text.getvalue()


def pipeline_page() -> str:
    bridges = (tables.INTEGRATION, tunnel_tables.TUNNELS, tables.PHYSICAL)
    lines = [
        "# The way of a packet",
        "",
        "Made from `netfw_drivers.ovs.pipeline.tables` and `tunnel_tables`;",
        "`tools/generate_docs.py` writes this page.",
        "",
        markdown(tables.__doc__),
        "",
        markdown(tunnel_tables.__doc__),
        "",
        "Tables are listed in the order in which a packet meets them.",
    ]
    for bridge in bridges:
        lines += ["", f"## {bridge.bridge}", "", bridge.describe().rstrip()]
    lines += ["", "## What costs how many flows", "", pipeline.describe().rstrip()]
    return "\n".join(lines) + "\n"


def api_page() -> str:
    """Return the page of the API with its own plugins; extension drivers and vendors add more."""
    lines = [
        "# Resources of the API",
        "",
        "Made from `netfw.server.api.resources`; `tools/generate_docs.py` writes this page. What",
        "can be done with them is in [The REST API](api.md). Quotas, and attributes that extension",
        "drivers add (`port_security_enabled`, `qos_policy_id`, `dns_name`), are not listed.",
    ]
    return "\n".join([*lines, "", reference(RESOURCES)])


def errors_page() -> str:
    """Return the page of the types by which clients distinguish errors."""
    lines = [
        "# Error types of the API",
        "",
        "Made from `netfw.errors`; `tools/generate_docs.py` writes this page. Clients map the",
        "`type` of an error to an exception; the message says more. A resource of a vendor has",
        "`<Resource>NotFound` and `<Resource>InUse`, by its name.",
    ]
    return "\n".join([*lines, "", render_error_types()])


def wanted() -> dict[Path, str]:
    kinds = all_contracts()
    pages = {CONTRACTS / page_name(kind): contract_page(kind) for kind in kinds}
    pages |= {CONTRACTS / RECONCILER: contract_page(Reconciler)}
    pages |= {CONTRACTS / VALUES: values_page(kinds)}
    samples = {path: sample(namespaces) for path, namespaces in SAMPLES.items()}
    pages |= {CONTRACTS / "index.md": index_page(kinds), PIPELINE: pipeline_page()}
    policy = rules.render_sample(rules.declared_rules(RESOURCES))
    pages |= {API: api_page(), ERRORS: errors_page(), port_diagram.DIAGRAM: port_diagram.draw()}
    pages |= {layer_diagram.DIAGRAM: layer_diagram.draw()}
    pages |= {contract_diagram.DIAGRAM: contract_diagram.draw()}
    schemas = {TOPOLOGY_SCHEMA: topology_schema(), STATUS_SCHEMA: status_schema()}
    pages |= {path: json.dumps(each, indent=1) + "\n" for path, each in schemas.items()}
    return {**pages, **api_pages.api_pages(), **samples, POLICY: policy}


def main(arguments: list[str]) -> int:
    pages = wanted()
    folders = (CONTRACTS, api_pages.PAGES)
    stale = {path for each in folders for path in each.glob("*.md") if path not in pages}
    stale |= {p for p, text in pages.items() if not p.exists() or p.read_text() != text}
    if "--check" in arguments:
        for path in sorted(stale):
            print(f"{path} is out of date: run .venv/bin/python tools/generate_docs.py")
        return 1 if stale else 0
    for path in sorted(stale):
        if path in pages:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(pages[path])
        else:
            path.unlink()
        print(f"wrote {path}" if path in pages else f"removed {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
