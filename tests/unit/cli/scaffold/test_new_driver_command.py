"""``netfw new-driver``: what it refuses, and that it writes all of a package or nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from string import Template

import pytest

from netfw.cli.commands.main import main
from netfw.cli.scaffold import package as writer
from netfw.cli.scaffold.kinds import all_kinds, find_kind
from netfw.cli.scaffold.names import LONGEST, make_names
from netfw.cli.scaffold.package import render_package, write_package
from netfw.drivers.registry.loader import all_contracts
from netfw.errors import ConfigError


def entries(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


@pytest.mark.slow
@pytest.mark.spec("DRV-31")
def test_every_contract_has_a_kind_and_each_kind_a_driver_and_a_suite() -> None:
    kinds = all_kinds()
    assert {kind.contract for kind in kinds.values()} == set(all_contracts())
    assert {"interface", "l2-extension", "core-plugin", "notifier", "type"} <= kinds.keys()
    for kind in kinds.values():
        rendered = {
            str(path): text for path, text in render_package(kind, make_names("a-b")).items()
        }
        suite = rendered["src/a_b/conformance.py"]
        assert f"class TestAB{kind.contract.__name__}(" in suite
        assert f"class AB{kind.contract.__name__}(" in rendered["src/a_b/driver.py"]
        assert f"VERSION: ClassVar[int] = {kind.contract.VERSION}" in rendered["src/a_b/driver.py"]
        assert f'entry-points."{kind.contract.GROUP}"' in rendered["pyproject.toml"]
        assert ".github/workflows/test.yml" in rendered
        assert not [text for text in rendered.values() if re.search(r"\$[a-z]", text)]


@pytest.mark.slow
def test_templates_share_no_file_and_every_placeholder_is_known() -> None:
    for kind in all_kinds().values():
        paths = [path for folder in kind.folders for path, _ in writer._templates(folder)]
        assert len(paths) == len(set(paths)), f"{kind.name}: a template replaces another"
        known = writer.template_values(kind, make_names("a-b")).keys()
        for folder in kind.folders:
            for path, text in writer._templates(folder):
                assert set(Template(text).get_identifiers()) <= known, path


@pytest.mark.slow
@pytest.mark.parametrize("name", ["zz", "a" * LONGEST])
def test_style_is_clean_whatever_the_name(tmp_path: Path, name: str) -> None:
    for kind in all_kinds().values():
        write_package(render_package(kind, make_names(name)), tmp_path / kind.name)
    check = [sys.executable, "-m", "ruff", "check", "--no-cache", tmp_path]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_package_is_written_with_its_names(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["new-driver", "interface", "Acme.Net-9", "--directory", str(tmp_path)]) == 0
    assert entries(tmp_path) == ["Acme.Net-9"]
    package = tmp_path / "Acme.Net-9"
    assert entries(package / "src") == ["acme_net_9"]
    driver = (package / "src" / "acme_net_9" / "driver.py").read_text()
    assert "class AcmeNet9InterfaceDriver(InterfaceDriver)" in driver
    assert package.stat().st_mode == (package / "src").stat().st_mode
    printed = capsys.readouterr().out
    assert "netfw-conformance Acme.Net-9" in printed


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("interfaces", "did you mean 'interface'?"),
        ("router-driver", "the kinds are api-extension, core-plugin, dhcp,"),
        ("", "there is no kind of driver ''"),
    ],
)
def test_unknown_kind_lists_the_kinds(
    tmp_path: Path, capsys: pytest.CaptureFixture, kind: str, text: str
) -> None:
    assert main(["new-driver", kind, "acme", "--directory", str(tmp_path)]) == 2
    assert text in capsys.readouterr().err
    assert entries(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("", "the name of a distribution"),
        ("-acme", "the name of a distribution"),
        ("acme/../../etc", "the name of a distribution"),
        ("acme net", "the name of a distribution"),
        ("acme\n", "the name of a distribution"),
        ("äcme", "the name of a distribution"),
        ("9acme", "begin with a letter"),
        ("class", "a keyword of Python"),
        ("Lambda", "a keyword of Python"),
        ("match", "a keyword of Python"),
        ("Default", "that of the group of all programs"),
        ("json", "the standard library"),
        ("sys", "the standard library"),
        ("netfw", "a module 'netfw' is installed"),
        ("attrs", "a module 'attrs' is installed"),
        ("oslo.config", "a module 'oslo_config' is installed"),
        ("openvswitch", "an installed InterfaceDriver has that name"),
        ("a" * (LONGEST + 1), "longer than 30"),
    ],
)
def test_name_that_no_package_can_have_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture, name: str, text: str
) -> None:
    assert main(["new-driver", "type", f"--directory={tmp_path}", "--", name]) == 2
    assert text in capsys.readouterr().err
    assert entries(tmp_path) == []


def test_folder_of_the_same_name_elsewhere_is_no_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here" / "acme").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(tmp_path / "here"))
    assert main(["new-driver", "type", "acme", "--directory", str(tmp_path)]) == 0
    (tmp_path / "here" / "acme" / "__init__.py").touch()
    assert main(["new-driver", "type", "acme", "--directory", str(tmp_path / "here")]) == 2


@pytest.mark.parametrize("existing", ["directory", "file", "dangling link"])
def test_what_exists_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture, existing: str
) -> None:
    target = tmp_path / "acme"
    match existing:
        case "directory":
            target.mkdir()
        case "file":
            target.write_text("mine")
        case _:
            target.symlink_to(tmp_path / "nowhere")
    assert main(["new-driver", "type", "acme", "--directory", str(tmp_path)]) == 2
    assert "nothing is overwritten; choose another name, or --directory" in capsys.readouterr().err
    assert entries(tmp_path) == ["acme"]
    if existing == "directory":
        assert entries(target) == []


@pytest.mark.parametrize(("parent", "why"), [("nowhere", "No such file"), ("file", "Not a dir")])
def test_parent_that_cannot_be_written_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture, parent: str, why: str
) -> None:
    (tmp_path / "file").touch()
    assert main(["new-driver", "type", "acme", "--directory", str(tmp_path / parent)]) == 2
    error = capsys.readouterr().err
    assert "cannot be written" in error
    assert why in error
    assert entries(tmp_path) == ["file"]


def test_failure_while_writing_leaves_nothing(tmp_path: Path) -> None:
    rendered = dict(render_package(find_kind("type"), make_names("acme")))
    too_long = next(iter(rendered)).with_name("n" * 300)
    with pytest.raises(ConfigError, match="File name too long"):
        write_package({**rendered, too_long: ""}, tmp_path / "acme")
    assert entries(tmp_path) == []
