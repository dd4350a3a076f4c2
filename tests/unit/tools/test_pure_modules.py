"""Modules that say they are pure, and what they import."""

from __future__ import annotations

from pathlib import Path

import grimp

from tools.pure_modules import chains, pure_modules


def test_modules_say_so_in_their_docstring(tmp_path: Path) -> None:
    files = {
        "__init__.py": '"""A package.  Pure."""',
        "index.py": '"""Index of ports.  Pure."""',
        "codec.py": '"""Codec.  Pure: a lookup gives indexes."""',
        "client.py": '"""Client of a switch."""\nPURE = "Pure"',
        "plain.py": "",
    }
    (tmp_path / "acme").mkdir()
    for name, text in files.items():
        (tmp_path / "acme" / name).write_text(text)
    assert [*pure_modules(tmp_path / "acme")] == ["acme.codec", "acme.index"]


def test_a_module_that_reaches_the_machine_by_another_is_found() -> None:
    graph = grimp.ImportGraph()
    for importer, imported in (("a.index", "a.client"), ("a.client", "socket"), ("a.text", "re")):
        for module in (importer, imported):
            graph.add_module(module)
        graph.add_import(importer=importer, imported=imported)
    assert [*chains(graph, "a.index")] == ["a.index -> a.client -> socket"]
    assert not [*chains(graph, "a.text")]
