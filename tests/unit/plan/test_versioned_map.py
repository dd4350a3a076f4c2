"""VersionedMap: a dict whose copies are not touched by later changes, and share their entries."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netfw.plan.versioned_map import MAX_CHANGES, VersionedMap

keys = st.integers(0, 200)
steps = st.lists(st.tuples(st.sampled_from(["set", "set", "delete", "copy"]), keys, st.integers()))


@given(st.lists(st.tuples(keys, st.integers())), steps)
def test_a_versioned_map_is_a_dict_and_its_copies_stay_as_they_are(start, changes):
    expected, versioned, copies = dict(start), VersionedMap(), []
    versioned.update(expected)
    for verb, key, value in changes:
        if verb == "set":
            expected[key] = versioned[key] = value
        elif verb == "delete":
            assert versioned.pop(key, None) == expected.pop(key, None)
        else:
            copies.append((versioned.copy(), dict(expected)))
    copies.append((versioned.copy(), expected))
    for copy, entries in copies:
        assert copy == entries
        assert len(copy) == len(entries)
        for key in range(0, 201, 20):
            assert (key in copy) == (key in entries)
            assert copy.get(key, "none") == entries.get(key, "none")


def test_a_versioned_map_raises_for_keys_that_are_not_there():
    versioned = VersionedMap()
    versioned[1] = "one"
    versioned.copy()
    del versioned[1]
    for key in (1, 2):
        with pytest.raises(KeyError):
            versioned[key]
        with pytest.raises(KeyError):
            del versioned[key]


def test_entries_that_came_and_went_leave_nothing_behind():
    versioned = VersionedMap()
    for key in range(10_000):
        versioned[key] = key
        del versioned[key]
    assert not versioned.changed
    assert not versioned.removed


def test_a_copy_after_a_change_does_not_allocate_all_entries():
    versioned = VersionedMap()
    versioned.update(dict.fromkeys(range(20_000), 0))
    versioned.copy()
    tracemalloc.start()
    try:
        copies = []
        for key in range(MAX_CHANGES):
            versioned[key] = 1
            copies.append(versioned.copy())
        allocated = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert allocated < 400_000, "one dict of 20,000 entries takes more"
    assert [copy[3] for copy in copies[2:5]] == [0, 1, 1]
