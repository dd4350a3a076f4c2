"""Programs that run in the process of the tests."""

import logging

import pytest


@pytest.fixture(autouse=True)
def restored_logging():
    """Remove the log handlers of a program: they write to the standard error of its test."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    for handler in [each for each in root.handlers if each not in handlers]:
        root.removeHandler(handler)
    root.setLevel(level)
