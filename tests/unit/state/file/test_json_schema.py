"""Editors find in a topology file what the reader would refuse, and nothing that it accepts."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from netfw.agents.common.agent import Counts
from netfw.agents.common.status import AgentStatus, StatusFile
from netfw.agents.common.status_schema import status_schema
from netfw.state.file.json_schema import topology_schema
from tests import ROOT

TOPOLOGIES = sorted((ROOT / "samples" / "topologies").glob("*.yaml"))


@cache
def validator(make_schema: Callable[[], dict[str, Any]]) -> Draft202012Validator:
    schema = make_schema()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def problems(make_schema: Callable[[], dict[str, Any]], value: object) -> list[str]:
    return [each.message for each in validator(make_schema).iter_errors(value)]


@pytest.mark.spec("DRV-34")
@pytest.mark.parametrize("path", TOPOLOGIES, ids=lambda path: path.stem)
def test_samples_fit(path: Path) -> None:
    assert problems(topology_schema, yaml.safe_load(path.read_text())) == []


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"prots": []}, "'prots' was unexpected"),
        ({"ports": {}}, "is not of type 'array'"),
        ({"ports": [{"nmae": "x"}]}, "'nmae' was unexpected"),
        ({"ports": [{"fixed_ips": [{"adress": "x"}]}]}, "not valid under any"),
        ({"networks": [{"mtu": "large"}]}, "is not of type 'integer'"),
        ({"hosts": {"one": {"local": "x"}}}, "'local' was unexpected"),
        ({"security_groups": [{"rules": [{"way": "in"}]}]}, "'way' was unexpected"),
    ],
)
def test_mistakes_are_found(value: object, problem: str) -> None:
    (found,) = problems(topology_schema, value)
    assert problem in found


@pytest.mark.spec("DRV-34")
def test_status_file_fits(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    status = AgentStatus(errors={"pull": "away"}, counts={"ports": 3}, last=Counts(added=2))
    StatusFile(path)(status)
    assert problems(status_schema, yaml.safe_load(path.read_text())) == []
    assert len(problems(status_schema, {**status.to_dict(), "ready": "yes"})) == 4
