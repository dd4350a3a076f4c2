"""Loader of configuration files, later ones taking precedence, into an object of the caller."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from attrs import frozen
from oslo_config import cfg

from netfw.conf.core import list_opts
from netfw.errors import ConfigError, find_nearest, nearest

_HIDDEN = "***"
_FOREIGN = {
    "invalid literal for int() with base 10: ": "not a whole number: ",
    "could not convert string to float: ": "not a number: ",
}
"""Beginnings of Python's error messages about values, and their replacements."""
Groups = Mapping[str | None, Sequence[cfg.Opt]]


@frozen(kw_only=True)
class ChangedOption:
    """An option whose value in the files has changed."""

    name: str
    old: object
    new: object
    at_once: bool
    """Whether the new value is in force; otherwise it needs a restart."""

    @classmethod
    def of(cls, group: str | None, option: cfg.Opt, old: object, new: object) -> Self:
        """Make a change; the values of secrets are not included."""
        values = (_HIDDEN, _HIDDEN) if option.secret else (old, new)
        name = _full_name(group, option.dest)
        return cls(name=name, old=values[0], new=values[1], at_once=bool(option.mutable))

    def __str__(self) -> str:
        if self.at_once:
            return f"{self.name} is now {self.new!r}, was {self.old!r}"
        return f"{self.name} needs a restart to become {self.new!r}, and stays {self.old!r}"


class LoadedConfig:
    """Options of one process, from its files and command line.

    ``conf`` is the oslo.config object that code reads options from.
    """

    def __init__(self, program: str, argv: Sequence[str], groups: Groups) -> None:
        self._source = program, argv, groups
        self.conf = _read(*self._source)

    def reload(self) -> tuple[ChangedOption, ...]:
        """Read the files again and apply the options that may change in a running process.

        Return every option whose value in the files differs, also those that need a restart.

        :raises ConfigError: a file cannot be parsed, or a value is impossible; nothing changed.
        """
        options = tuple(_all_options(self._source[2]))
        former = [_value(self.conf, group, option) for group, option in options]
        fresh = _read(*self._source)  # oslo.config accepts impossible values without validation
        try:
            self.conf.mutate_config_files()
            # It empties its cache before it reads, and readers meanwhile filled it with former
            # values; clearing an override that does not exist empties it once more.
            self.conf.clear_override("host")
            # It has read the files itself, which may have changed once more since.
            latest = [
                _value(self.conf if option.mutable else fresh, group, option)
                for group, option in options
            ]
        except (cfg.Error, ValueError) as exc:
            raise ConfigError(f"a file changed while it was read: {exc}") from exc
        return tuple(
            ChangedOption.of(group, option, old, new)
            for (group, option), old, new in zip(options, former, latest, strict=True)
            if old != new
        )


def load_config(program: str, argv: Sequence[str], groups: Groups | None = None) -> LoadedConfig:
    """Read the options of *groups* and the core ones from *argv* and the files it names.

    ``--config-file`` and ``--config-dir`` may be given several times; later ones win.  Without
    any, the default directories (``~/.netfw``, ``/etc/netfw``) are searched.

    :raises ConfigError: a file is missing or cannot be parsed, or a value is impossible.
    """
    return LoadedConfig(program, argv, groups or {})


class OtherPrograms:
    """Groups and options of the programs that may share a file; here there are none."""

    def has_group(self, section: str) -> bool:
        """Return whether another program reads *section*."""
        return False

    def options(self, section: str) -> Collection[str]:
        """Return the names of the options that other programs read in *section*."""
        return ()


def refuse_misspelt(conf: cfg.ConfigOpts, others: OtherPrograms | None = None) -> tuple[str, ...]:
    """Refuse misspelt options of our groups; return the other options that nothing reads.

    Without the intended option a host could run with less than its operator expects. Options of
    *others* are left out.

    :raises ConfigError: an option is misspelt.
    """
    unknown = tuple(unknown_options(conf, others))
    misspelt = [each.sentence for each in unknown if each.misspelt]
    if misspelt:
        raise ConfigError("; ".join(misspelt))
    return tuple(each.sentence for each in unknown)


@frozen
class Unknown:
    """An option that nothing here reads."""

    sentence: str
    misspelt: bool = False
    """Whether it is in a group of ours, and one of its options has nearly this name."""


def unknown_options(conf: cfg.ConfigOpts, others: OtherPrograms | None = None) -> Iterator[Unknown]:
    """Yield every option in the files that neither this program nor *others* read.

    Groups that are not registered here are skipped, as several programs may share a file,
    unless their name is nearly that of a registered one. *others* are consulted only about
    names that are unknown here.
    """
    for path, section, names in file_sections(conf):
        yield from _unknown(conf, others or OtherPrograms(), (path, section), names)


def file_sections(conf: cfg.ConfigOpts) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield the sections of the configuration files: path, section, names of its options.

    Files that cannot be read or parsed are skipped.
    """
    for path in _files(conf):
        sections: dict[str, dict[str, list[str]]] = {}
        try:
            cfg.ConfigParser(path, sections).parse()
        except (OSError, cfg.ParseError):
            continue
        for section, values in sections.items():
            yield path, section, tuple(values)


def _unknown(
    conf: cfg.ConfigOpts, others: OtherPrograms, where: tuple[str, str], values: Iterable[str]
) -> Iterator[Unknown]:
    path, section = where
    known = _known_names(conf, section)
    if known is None:
        hint = nearest(section, _groups(conf))
        if hint and not others.has_group(section):
            yield Unknown(f"{path}: [{section}] is not a group{hint}")
        return
    unknown = {name: name.replace("-", "_") for name in values}
    unknown = {name: spelt for name, spelt in unknown.items() if spelt not in known}
    foreign = {*others.options(section)} if unknown else set()
    for name, spelt in unknown.items():
        if spelt not in foreign:
            misspelt = find_nearest(spelt, known) is not None and section != "DEFAULT"
            hint = (misspelt and nearest(spelt, known | foreign)) or _hint(conf, section, spelt)
            yield Unknown(f"{path}: [{section}] {name} is not an option{hint}", misspelt)


def _hint(conf: cfg.ConfigOpts, section: str, name: str) -> str:
    """Return a suggestion for an option that *section* does not have, of it or another group."""
    groups = {
        known: group
        for group in (*_groups(conf), "DEFAULT", section)
        for known in _known_names(conf, group) or ()
    }
    found = find_nearest(name, groups)
    if found is None:
        return ""
    where = "" if groups[found] == section else f" of [{groups[found]}]"
    return f", did you mean {found!r}{where}?"


def _groups(conf: cfg.ConfigOpts) -> list[str]:
    return [name for name in conf if isinstance(conf[name], cfg.ConfigOpts.GroupAttr)]


def _read(program: str, argv: Sequence[str], groups: Groups) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    for group, options in [*list_opts(), *groups.items()]:
        conf.register_opts(options, group=group)
    try:
        conf(list(argv), project="netfw", prog=program)
        _validate_directories(conf)
        _read_everything(conf, groups)
    except cfg.RequiredOptError as exc:
        found = conf.config_file or conf.config_dir
        hint = "" if found else "  No configuration file was found: name one by --config-file."
        raise ConfigError(_missing(exc, groups) + hint) from exc
    except cfg.Error as exc:
        raise ConfigError(str(exc)) from exc
    except OSError as exc:
        raise ConfigError(f"{exc.filename} cannot be read: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{_undecodable_file(argv)} is not text in UTF-8: {exc}") from exc
    return conf


def _validate_directories(conf: cfg.ConfigOpts) -> None:
    """Refuse a file in the place of a directory, which oslo.config ignores."""
    for directory in conf.config_dir or ():
        if not Path(directory).is_dir():
            raise ConfigError(f"--config-dir {directory}: it is no directory")


def _undecodable_file(argv: Sequence[str]) -> str:
    """Return the file of *argv* that is no text, which oslo.config does not name."""
    for word in argv:
        path = Path(word.rpartition("=")[2])
        for each in (path, *sorted(path.glob("*.conf"))):
            try:
                each.read_text("utf-8")
            except UnicodeDecodeError:
                return str(each)
            except (OSError, ValueError):
                continue
    return "a configuration file"


def _missing(error: cfg.RequiredOptError, groups: Groups) -> str:
    """Return what to write where a required value is missing."""
    name, group = error.opt_name, getattr(error.group, "name", error.group)
    known = ((of, option) for of, option in _all_options(groups) if option.name == name)
    help = next((f"  {option.help}" for of, option in known if of == group and option.help), "")
    where = f"[{group or 'DEFAULT'}]"
    return f"{where} {name} is missing: write '{name} = ...' under {where}.{help}"


def _all_options(groups: Groups) -> Iterator[tuple[str | None, cfg.Opt]]:
    for group, options in [*list_opts(), *groups.items()]:
        for option in options:
            yield group, option


def _value(conf: cfg.ConfigOpts, group: str | None, option: cfg.Opt) -> object:
    return (conf if group is None else conf[group])[option.dest]


def _read_everything(conf: cfg.ConfigOpts, groups: Groups) -> None:
    """Validate every value now: oslo.config would do it on first use, while the process runs."""
    for group, option in _all_options(groups):
        try:
            _value(conf, group, option)
        except ValueError as exc:
            reason = str(exc).rpartition("is not valid: ")[2]
            for theirs, ours in _FOREIGN.items():
                reason = reason.replace(theirs, ours)
            where = f"[{group or 'DEFAULT'}] {option.dest}"
            raise ConfigError(f"{_origin(exc)}{where}: {reason}") from exc


def _origin(error: ValueError) -> str:
    """Return the file of an impossible value, as far as oslo.config reports it."""
    found = re.search(r"detail='([^']*)'", str(error))
    return f"{found[1]}: " if found and found[1] else ""


def _known_names(conf: cfg.ConfigOpts, section: str) -> set[str] | None:
    if section == "DEFAULT":
        return {*conf.keys()} - {*_groups(conf)}
    return {*conf[section].keys()} if section in conf else None


def _files(conf: cfg.ConfigOpts) -> Iterator[str]:
    yield from conf.config_file or ()
    for directory in conf.config_dir or ():
        yield from sorted(map(str, Path(directory).glob("*.conf")))


def _full_name(group: str | None, name: str) -> str:
    return name if group is None else f"{group}.{name}"
