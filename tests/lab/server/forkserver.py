"""Processes of tests, forked from one server that has imported what their work needs.

A process that imports the server's code itself takes longer for that than for its work.
"""

from __future__ import annotations

import multiprocessing

WORK_MODULES = (
    "tests.lab.server.db.processes",
    "tests.lab.server.l2.network_processes",
    "tests.lab.server.l2.port_processes",
    "tests.lab.server.l2.test_trunk_concurrency",
    "tests.lab.server.l3.processes",
    "tests.lab.server.scheduling.processes",
    "tests.lab.server.security_groups.processes",
    "tests.lab.server.segment_ranges.processes",
    "tests.lab.server.subnet_pools.processes",
)
"""Modules of functions that tests run in other processes."""

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["pytest", "sqlalchemy.dialects.postgresql.psycopg", "pymysql", *WORK_MODULES]
)
