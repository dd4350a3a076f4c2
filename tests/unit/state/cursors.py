"""Cursors of a source in memory."""

from netfw.testing.conformance.state_source import samples


def cursor(source, interest=samples.L2_HERE):
    *_, last = source.snapshot(interest)
    return last.cursor
