"""The sample configurations in samples/conf explain what they list."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import ROOT

SAMPLES = sorted((ROOT / "samples" / "conf").glob("*.conf"))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.stem)
def test_every_possible_value_of_an_option_is_described(sample: Path) -> None:
    lines = sample.read_text().splitlines()
    assert [line for line in lines if "No description provided" in line] == []
