"""Here, so that tests in folders below find what those of all suites share."""
