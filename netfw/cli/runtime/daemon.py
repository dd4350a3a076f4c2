"""The frame of every daemon: options, logging, signals."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from netfw import tracing
from netfw.cli.runtime.installed_options import InstalledPrograms
from netfw.cli.runtime.log_format import install_formatter
from netfw.cli.runtime.service_manager import SdNotifier
from netfw.cli.runtime.signals import Signals
from netfw.conf.loader import Groups, LoadedConfig, load_config, refuse_misspelt
from netfw.errors import ConfigError
from netfw.linux.fs.permissions import exposure_problem

if TYPE_CHECKING:
    from oslo_config.cfg import ConfigOpts

LOG = logging.getLogger(__name__)
_LIBRARY_LEVELS = {"alembic": "warning"}
"""Levels of libraries whose lines say nothing to operators; they do not apply to ``debug``."""


class DaemonControl:
    """Requests of the operator to a running process."""

    def __init__(self, manager: SdNotifier) -> None:
        self.manager = manager
        """Gets to know when the process has started."""
        self.stop = threading.Event()
        """Set when the process must stop."""
        self.on_reload: Callable[[], None] = lambda: None
        """Called, on a thread of its own, after the files were reloaded."""


Serve = Callable[["ConfigOpts", DaemonControl], None]
"""The work of the process: returns soon after ``stop`` is set; changes nothing then."""


def run(program: str, argv: Sequence[str], serve: Serve, groups: Groups | None = None) -> int:
    """Read the configuration, set logging up, and serve until SIGTERM or SIGINT.

    SIGHUP reloads the files: mutable options and logging take effect at once, and a file that
    cannot be read changes nothing. Return the exit status; a wrong configuration is 2.
    """
    try:
        settings = load_config(program, argv, groups)
        conf = settings.conf
        unknown = refuse_misspelt(conf, InstalledPrograms())
        _check_state_path(conf)
        log = LogSettings()
        log.apply(conf)
    except ConfigError as exc:
        print(f"{program}: {exc}", file=sys.stderr)
        return 2
    for sentence in unknown:
        LOG.warning("%s", sentence)
    control = DaemonControl(SdNotifier.from_environment())

    def reload() -> None:
        control.manager.begin_reload()
        try:
            if _reload(settings, log):
                control.on_reload()
        except Exception:  # the thread handles the next signals, too
            LOG.exception("reload failed: internal error; what was read before it stays in force")
        finally:
            control.manager.end_reload()

    def stop() -> None:
        control.manager.stop()
        control.stop.set()

    Signals(on_stop=stop, on_hangup=reload)
    with _tracing(program, conf):
        serve(conf, control)
    return 0


@contextmanager
def _tracing(program: str, conf: ConfigOpts) -> Iterator[None]:
    """Export spans within the block, if the options name a receiver; else import nothing for it.

    :raises ConfigError: the packages for it are missing.
    """
    if not conf.tracing.otlp_endpoint:
        yield
        return
    try:
        from netfw.cli.runtime.otel import OtelTracer
    except ModuleNotFoundError as exc:
        text = f"[tracing] otlp_endpoint: pip install 'netfw[otel]' ({exc})"
        raise ConfigError(text) from exc
    options = conf.tracing
    tracer = OtelTracer(
        options.otlp_endpoint, options.sample_ratio, program=program, host=conf.host
    )
    try:
        with tracing.tracing(tracer):
            yield
    finally:
        tracer.close()


def _check_state_path(conf: ConfigOpts) -> None:
    """Check the state directory of root.

    :raises ConfigError: others could change files that root would trust.
    """
    if problem := exposure_problem(Path(conf.state_path).absolute()):
        raise ConfigError(f"[DEFAULT] state_path: {problem}, or name another directory")


class LogSettings:
    """File and levels of the root logger, set from the logging options."""

    def __init__(self) -> None:
        self._named: list[str] = []

    def apply(self, conf: ConfigOpts) -> None:
        """Apply the logging options of *conf*; reopen the file, so that it can be rotated.

        :raises ConfigError: the file cannot be opened or a level does not exist; nothing changed.
        """
        levels = logging.getLevelNamesMapping()
        for name, level in conf.log_levels.items():
            if level.upper() not in levels:
                raise ConfigError(f"log_levels: {name} cannot have the level {level!r}")
        try:
            handler = logging.FileHandler(conf.log_file) if conf.log_file else _standard_error()
        except OSError as exc:
            raise ConfigError(f"log_file cannot be opened: {exc}") from exc
        self._replace_handlers(install_formatter(handler, conf.log_format))
        logging.getLogger().setLevel(conf.log_level.upper())
        for name in self._named:
            logging.getLogger(name).setLevel(logging.NOTSET)
        named = {**({} if conf.log_level == "debug" else _LIBRARY_LEVELS), **conf.log_levels}
        for name, level in named.items():
            logging.getLogger(name).setLevel(level.upper())
        self._named = list(named)

    @staticmethod
    def _replace_handlers(handler: logging.Handler) -> None:
        root = logging.getLogger()
        for former in list(root.handlers):
            root.removeHandler(former)
            former.close()
        root.addHandler(handler)


def _standard_error() -> logging.Handler:
    return logging.StreamHandler()


def _reload(settings: LoadedConfig, log: LogSettings) -> bool:
    """Reload the files; return whether they could be read."""
    theirs = logging.getLogger("oslo_config.cfg")
    theirs.disabled = True  # it tells of the same options, and knows no defaults
    try:
        changed = settings.reload()
        log.apply(settings.conf)
    except ConfigError as exc:
        LOG.error("not reloaded: %s", exc)
        return False
    finally:
        theirs.disabled = False
    for each in changed:
        LOG.log(logging.INFO if each.at_once else logging.WARNING, "%s", each)
    LOG.info("reloaded" if changed else "reloaded: no option has changed")
    return True
