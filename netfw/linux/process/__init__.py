"""Processes: commands that end, and supervised programs."""

from netfw.linux.process.command import Finished, run_command, why_missing
from netfw.linux.process.events import ProcessExited, ProcessRespawned, RespawnFailed
from netfw.linux.process.identity import handles, is_asleep
from netfw.linux.process.orphans import kill_in_namespace
from netfw.linux.process.supervised_process import RunningProcess, StartedProcess
from netfw.linux.process.supervised_program import Backoff, OnDeath, ProcessKey, Program, Timeouts
from netfw.linux.process.supervisor import Supervisor

__all__ = [
    "Backoff",
    "Finished",
    "OnDeath",
    "ProcessExited",
    "ProcessKey",
    "ProcessRespawned",
    "Program",
    "RespawnFailed",
    "RunningProcess",
    "StartedProcess",
    "Supervisor",
    "Timeouts",
    "handles",
    "is_asleep",
    "kill_in_namespace",
    "run_command",
    "why_missing",
]
