"""The files for Prometheus and Grafana, and the metrics that they name."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import yaml  # type: ignore[import-untyped]

from tests import ROOT

PROMETHEUS = ROOT / "packaging" / "prometheus"
RULES = PROMETHEUS / "netfw.rules.yml"
RULE_TESTS = PROMETHEUS / "netfw.rules.test.yml"
DASHBOARD = ROOT / "packaging" / "grafana" / "netfw.json"
PAGE = ROOT / "docs" / "monitoring.md"
METRIC = re.compile(r"\b(?:netfw|process)_[a-z0-9_]+[a-z0-9]\b")


def promtool(*words: str, stdin: str = "") -> str:
    """Run promtool, which must accept what it is given; return its output."""
    done = subprocess.run(
        ["promtool", *words], input=stdin, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def alerts() -> dict[str, str]:
    """Return the expressions of the alert rules by name."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


def panels() -> list[dict[str, Any]]:
    """Return the panels of the dashboard that are no row headers."""
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return [panel for panel in found if panel["type"] != "row"]


def dashboard_expressions() -> Iterator[str]:
    """Yield the queries of the dashboard, with values in place of its variables."""
    for panel in panels():
        for target in panel["targets"]:
            expression = target["expr"].replace("$__rate_interval", "5m")
            yield re.sub(r"\$\w+", ".*", expression)


def named_metrics() -> set[str]:
    """Return the metrics that the rules and the dashboard use."""
    texts = [*alerts().values(), *dashboard_expressions()]
    return {name for text in texts for name in METRIC.findall(text)}
