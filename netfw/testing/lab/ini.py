"""Configuration files, as netfw's programs read them."""

from __future__ import annotations

from collections.abc import Mapping

Groups = Mapping[str, Mapping[str, object]]
"""Options by name, in their groups."""


def ini(groups: Groups) -> str:
    """Render *groups* as a configuration file."""
    lines = []
    for group, options in groups.items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in options.items()), ""]
    return "\n".join(lines)
