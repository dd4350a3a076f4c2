"""Processes: commands that end, and programs that are kept running."""

from netfw.linux.process.command import Finished, run_command, why_missing
from netfw.linux.process.events import ProcessDied, ProcessRespawned, RespawnFailed
from netfw.linux.process.identity import is_asleep
from netfw.linux.process.keeper import Process, Running
from netfw.linux.process.program import Backoff, OnDeath, Patience, ProcessKey, Program
from netfw.linux.process.stranded import end_stranded
from netfw.linux.process.supervisor import Supervisor

__all__ = [
    "Backoff",
    "Finished",
    "OnDeath",
    "Patience",
    "Process",
    "ProcessDied",
    "ProcessKey",
    "ProcessRespawned",
    "Program",
    "RespawnFailed",
    "Running",
    "Supervisor",
    "end_stranded",
    "is_asleep",
    "run_command",
    "why_missing",
]
