"""What the tests of all suites share; here, so that those in folders below find it too."""

import pytest
from suite_failures import Failures, failures_of


@pytest.fixture(scope="module")
def failures(request: pytest.FixtureRequest) -> Failures:
    """Which tests refuse which of the module's ``SUBJECTS``."""
    return failures_of(request.module.SUBJECTS)
