from pathlib import Path

import pytest
from oslo_config import cfg

from netfw.conf.loader import load_config, refuse_misspelt, unknown_options
from netfw.errors import ConfigError

GROUPS = {
    "acme": [
        cfg.IntOpt("size", default=1),
        cfg.FloatOpt("pace", default=1.0),
        cfg.StrOpt("mode", mutable=True, default="a"),
    ]
}


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


@pytest.mark.spec("DRV-14")
def test_later_files_and_directories_win(tmp_path: Path) -> None:
    first = write(tmp_path / "first.conf", "[acme]\nsize = 2\nmode = b\n")
    second = write(tmp_path / "second.conf", "[acme]\nsize = 3\n")
    extra = tmp_path / "extra.d"
    extra.mkdir()
    write(extra / "10.conf", "[acme]\nsize = 4\n")
    files = ["--config-file", first, "--config-file", second]
    assert load_config("t", files, GROUPS).conf.acme.size == 3
    conf = load_config("t", [*files, "--config-dir", str(extra)], GROUPS).conf
    assert (conf.acme.size, conf.acme.mode) == (4, "b")


def test_two_configurations_live_side_by_side(tmp_path: Path) -> None:
    one = load_config("t", ["--config-file", write(tmp_path / "1", "[acme]\nsize=1")], GROUPS).conf
    two = load_config("t", ["--config-file", write(tmp_path / "2", "[acme]\nsize=2")], GROUPS).conf
    assert (one.acme.size, two.acme.size) == (1, 2)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[acme]\nsize = many\n", r"bad\.conf: \[acme\] size: not a whole number: 'many'$"),
        ("[acme]\npace = soon\n", r"bad\.conf: \[acme\] pace: not a number: 'soon'$"),
        ("[acme\nsize = 1\n", "Invalid section"),
        ("log_level = loud\n", "log_level"),
    ],
)
def test_what_cannot_be_is_refused_at_once(tmp_path: Path, text: str, reason: str) -> None:
    if not text.startswith("["):
        text = f"[DEFAULT]\n{text}"
    with pytest.raises(ConfigError, match=reason):
        load_config("t", ["--config-file", write(tmp_path / "bad.conf", text)], GROUPS)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ConfigError, match=r"/nowhere/x\.conf"):
        load_config("t", ["--config-file", "/nowhere/x.conf"])


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"^{tmp_path} cannot be read: Is a directory$"):
        load_config("t", ["--config-file", str(tmp_path)])
    binary = tmp_path / "binary.conf"
    binary.write_bytes(b"[acme]\nmode = \xff\n")
    for argv in (["--config-file", str(binary)], [f"--config-dir={tmp_path}"]):
        with pytest.raises(ConfigError, match=f"^{binary} is not text in UTF-8"):
            load_config("t", argv)
    with pytest.raises(ConfigError, match=f"^--config-dir {binary}: it is no directory$"):
        load_config("t", ["--config-dir", str(binary)])


def test_a_file_that_is_no_longer_text_changes_nothing_on_reload(tmp_path: Path) -> None:
    path = tmp_path / "a.conf"
    settings = load_config("t", ["--config-file", write(path, "[acme]\nmode=b\n")], GROUPS)
    path.write_bytes(b"[acme]\nmode = \xff\n")
    with pytest.raises(ConfigError, match=str(path)):
        settings.reload()
    assert settings.conf.acme.mode == "b"


def test_a_missing_option_without_any_file_asks_for_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    groups = {"acme": [cfg.StrOpt("path", required=True)]}
    with pytest.raises(ConfigError, match="name one by --config-file"):
        load_config("t", [], groups)
    empty = write(tmp_path / "a.conf", "[acme]\n")
    with pytest.raises(ConfigError) as refusal:
        load_config("t", ["--config-file", empty], groups)
    assert "--config-file" not in str(refusal.value)


@pytest.mark.spec("DRV-14")
def test_reload_takes_over_what_may_change_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.conf"
    settings = load_config("t", ["--config-file", write(path, "[acme]\nsize=1\nmode=a\n")], GROUPS)
    write(path, "[acme]\nsize=2\nmode=b\n")
    assert [str(each) for each in settings.reload()] == [
        "acme.size needs a restart to become 2, and stays 1",
        "acme.mode is now 'b', was 'a'",
    ]
    assert (settings.conf.acme.size, settings.conf.acme.mode) == (1, "b")


def test_reload_knows_defaults_and_keeps_secrets(tmp_path: Path) -> None:
    secret = cfg.StrOpt("key", secret=True, mutable=True)
    path = tmp_path / "a.conf"
    groups = {"acme": [*GROUPS["acme"], secret]}
    settings = load_config("t", ["--config-file", write(path, "[acme]\n")], groups)
    write(path, "[acme]\nmode=b\nkey=hush\n")
    assert [str(each) for each in settings.reload()] == [
        "acme.mode is now 'b', was 'a'",
        "acme.key is now '***', was '***'",
    ]
    assert settings.conf.acme.key == "hush"


def test_file_that_changes_during_a_reload_is_reported_as_it_was_read(tmp_path: Path) -> None:
    path = tmp_path / "a.conf"
    settings = load_config("t", ["--config-file", write(path, "[acme]\nmode=a\n")], GROUPS)
    mutate, texts = settings.conf.mutate_config_files, ["[acme\n", "[acme]\nmode=b\n"]

    def late() -> object:
        write(path, texts.pop())
        return mutate()

    settings.conf.mutate_config_files = late  # type: ignore[method-assign]
    assert [str(each) for each in settings.reload()] == ["acme.mode is now 'b', was 'a'"]
    with pytest.raises(ConfigError, match="changed while it was read"):
        settings.reload()
    assert settings.conf.acme.mode == "b"


def test_what_must_be_given_is_asked_for(tmp_path: Path) -> None:
    groups = {"acme": [cfg.StrOpt("path", required=True, help="Where it is.")]}
    with pytest.raises(ConfigError) as caught:
        load_config("t", ["--config-file", write(tmp_path / "a.conf", "[acme]\n")], groups)
    assert str(caught.value) == (
        "[acme] path is missing: write 'path = ...' under [acme].  Where it is."
    )


@pytest.mark.parametrize("text", ["[acme\nmode=b\n", "[acme]\nmode=b\nsize=many\n"])
def test_a_broken_file_changes_nothing_on_reload(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.conf"
    settings = load_config("t", ["--config-file", write(path, "[acme]\nmode=a\n")], GROUPS)
    write(path, text)
    with pytest.raises(ConfigError):
        settings.reload()
    assert settings.conf.acme.mode == "a"


def test_reload_reaches_options_read_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "a.conf"
    settings = load_config("t", ["--config-file", write(path, "[acme]\nmode=a\n")], GROUPS)
    slowly = settings.conf._reload_config_files

    def asked_meanwhile() -> object:
        read_by_now = slowly()
        assert settings.conf.acme.mode == "a", "the former value, as it is still in force"
        return read_by_now

    settings.conf._reload_config_files = asked_meanwhile
    write(path, "[acme]\nmode=b\n")
    assert [each.new for each in settings.reload()] == ["b"]
    assert settings.conf.acme.mode == "b"


def test_options_of_another_group_are_noticed(tmp_path: Path) -> None:
    # They are no reason to refuse a file: several programs may share it.
    driver = {"driver": [cfg.IntOpt("vrrp_advert_int", default=2)]}
    text = "[acme]\nvrrp_advert_int = 3\nvrrp_advrt_int = 3\n[driver]\nsize = 2\nhost = x\n"
    path = write(tmp_path / "a.conf", text)
    conf = load_config("t", ["--config-file", path], {**GROUPS, **driver}).conf
    found = tuple(unknown_options(conf))
    assert not any(each.misspelt for each in found)
    assert [each.sentence.removeprefix(f"{path}: ") for each in found] == [
        "[acme] vrrp_advert_int is not an option, did you mean 'vrrp_advert_int' of [driver]?",
        "[acme] vrrp_advrt_int is not an option, did you mean 'vrrp_advert_int' of [driver]?",
        "[driver] size is not an option, did you mean 'size' of [acme]?",
        "[driver] host is not an option, did you mean 'host' of [DEFAULT]?",
    ]


def test_misspelt_options_are_noticed(tmp_path: Path) -> None:
    text = "[DEFAULT]\nhosts = x\n[acme]\nsice = 2\n[other]\ny = 1\n[akme]\nsize = 2\n"
    path = write(tmp_path / "a.conf", text)
    conf = load_config("t", ["--config-file", path], GROUPS).conf
    assert [(each.sentence, each.misspelt) for each in unknown_options(conf)] == [
        (f"{path}: [DEFAULT] hosts is not an option, did you mean 'host'?", False),
        (f"{path}: [acme] sice is not an option, did you mean 'size'?", True),
        (f"{path}: [akme] is not a group, did you mean 'acme'?", False),
    ]


def test_a_refused_option_is_named_with_the_similar_one_of_its_group(tmp_path: Path) -> None:
    # An option of another group may be more similar: it is not why the file is refused.
    groups = {"acme": [cfg.IntOpt("connections")], "database": [cfg.StrOpt("connection")]}
    path = write(tmp_path / "a.conf", "[acme]\nnonsense_option = 1\n")
    conf = load_config("t", ["--config-file", path], groups).conf
    with pytest.raises(ConfigError) as caught:
        refuse_misspelt(conf)
    assert str(caught.value) == (
        f"{path}: [acme] nonsense_option is not an option, did you mean 'connections'?"
    )
