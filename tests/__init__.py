"""Tests of netfw; `ROOT` is the checkout that they belong to."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
