"""Alert rules, scrape configuration and dashboard, as Prometheus' own tool sees them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from tests.system.prometheus_files import (
    DASHBOARD,
    PAGE,
    PROMETHEUS,
    RULE_TESTS,
    alerts,
    dashboard_expressions,
    named_metrics,
    panels,
    promtool,
)


@pytest.mark.spec("DRV-43")
def test_rules_and_scrape_configuration_are_valid() -> None:
    output = promtool("check", "config", str(PROMETHEUS / "prometheus.yml"))
    assert f"{len(alerts())} rules found" in output


@pytest.mark.spec("DRV-43")
def test_every_alert_fires_when_it_should_and_not_before() -> None:
    promtool("test", "rules", str(RULE_TESTS))
    tests = yaml.safe_load(RULE_TESTS.read_text())["tests"]
    expected = {
        sample["labels"]
        for each in tests
        for query in each["promql_expr_test"]
        for sample in query["exp_samples"]
    }
    assert expected == {f'{{alertname="{name}"}}' for name in alerts()}
    assert [name for name in alerts() if f"`{name}`" not in PAGE.read_text()] == []


@pytest.mark.spec("DRV-43")
def test_queries_of_the_dashboard_are_valid(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{number}", "expr": each}
        for number, each in enumerate(dashboard_expressions())
    ]
    path = tmp_path / "dashboard.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", str(path))


def test_dashboard_describes_each_panel_once() -> None:
    content = json.loads(DASHBOARD.read_text())
    ids = [panel["id"] for panel in content["panels"]]
    titles = [panel["title"] for panel in panels()]
    assert len(set(ids)) == len(ids)
    assert all(panel["description"].endswith(".") for panel in panels())
    assert len(titles) > 15
    assert len(named_metrics()) > 20
