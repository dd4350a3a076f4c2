"""What the mode of a file lets whom do."""

from __future__ import annotations

import os
import struct

import pytest

from netfw.linux.fs.permissions import Right, has_permission

STRANGER = 4711
"""Neither a user nor a group that owns anything here."""


@pytest.mark.parametrize(
    ("mode", "allowed"),
    [
        (0o000, set()),
        (0o300, {"owner"}),
        (0o030, {"member"}),
        (0o003, {"stranger"}),
        (0o333, {"owner", "member", "stranger"}),
        (0o707, {"owner", "stranger"}),
    ],
)
@pytest.mark.parametrize("right", list(Right))
def test_first_matching_permission_class_decides(tmp_path, mode, allowed, right):
    # This holds also when a later class would give more; root may do everything.
    place = tmp_path / "place"
    place.mkdir()
    place.chmod(mode)
    owner, group = place.stat().st_uid, place.stat().st_gid
    assert has_permission(place, right, user=owner, groups={group}) is (
        "owner" in allowed or owner == 0
    )
    assert has_permission(place, right, user=STRANGER, groups={STRANGER, group}) is (
        "member" in allowed
    )
    assert has_permission(place, right, user=STRANGER, groups={STRANGER}) is ("stranger" in allowed)
    assert has_permission(place, right, user=0, groups=frozenset())


def test_a_right_is_not_another(tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    place.chmod(0o005)
    assert has_permission(place, Right.SEARCH, user=STRANGER, groups={STRANGER})
    assert not has_permission(place, Right.WRITE, user=STRANGER, groups={STRANGER})


def test_nothing_is_held_against_a_path_with_a_list_of_rights(tmp_path):
    # The mode does not show which users the list admits.
    place = tmp_path / "place"
    place.mkdir(mode=0o700)
    nobody = 0xFFFFFFFF
    entries = (
        (0x01, 7, nobody),  # the owner
        (0x02, 1, STRANGER),  # this user
        (0x04, 0, nobody),  # the group
        (0x10, 1, nobody),  # the most that those named have
        (0x20, 0, nobody),  # others
    )
    rights = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    try:
        os.setxattr(place, "system.posix_acl_access", rights)
    except OSError as error:
        pytest.skip(f"no lists of rights here: {error}")
    assert has_permission(place, Right.SEARCH, user=STRANGER, groups={STRANGER})
