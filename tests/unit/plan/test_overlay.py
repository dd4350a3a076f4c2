"""Overlays: the same as a copy that was changed, and the base untouched until commit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netfw.plan.overlay import MultiMap, MultiMapOverlay, Overlay

keys = st.integers(0, 5)
mappings = st.dictionaries(keys, st.integers())
changes = st.lists(st.tuples(st.sampled_from(["set", "delete", "discard"]), keys, st.integers()))
pairs = st.tuples(st.integers(0, 3), st.integers(10, 13))
edits = st.lists(st.tuples(st.sampled_from(["add", "remove"]), pairs))


def change(mapping, verb, key, value) -> None:
    """Make one change of an overlay, or of the dict that it is compared with."""
    if verb == "set":
        mapping[key] = value
    elif verb == "discard" and isinstance(mapping, Overlay):
        mapping.discard(key)
    elif verb == "discard":
        mapping.pop(key, None)
    elif key in mapping:
        del mapping[key]


@given(mappings, changes)
def test_an_overlay_is_a_changed_copy_and_leaves_its_base(base, steps):
    before, copy, overlay = dict(base), dict(base), Overlay(base)
    for step in steps:
        change(copy, *step)
        change(overlay, *step)
        assert dict(overlay) == copy
        assert len(overlay) == len(copy)
        for key in range(7):
            assert (key in overlay, overlay.get(key, "none")) == (
                key in copy,
                copy.get(key, "none"),
            )
    assert base == before
    overlay.commit()
    assert base == copy
    assert dict(overlay) == copy
    assert (overlay.changed, overlay.removed) == ({}, {})


def test_an_overlay_raises_for_keys_that_are_not_there():
    overlay = Overlay({1: "one"})
    del overlay[1]
    for key in (1, 2):
        with pytest.raises(KeyError):
            overlay[key]
        with pytest.raises(KeyError):
            del overlay[key]


def test_an_overlay_records_the_removal_of_a_key_that_never_was():
    overlay = Overlay({1: "one"})
    overlay.discard(2)
    assert (list(overlay.removed), len(overlay)) == ([2], 1)


def edited(multimap, steps) -> None:
    for verb, pair in steps:
        getattr(multimap, verb)(*pair)


def agree(multimap: MultiMap[int, int], model: set[tuple[int, int]]) -> None:
    """Compare every question with a plain set of pairs."""
    assert sorted(multimap) == sorted(model)
    assert bool(multimap) == bool(model)
    for left in range(5):
        assert multimap.values_of(left) == {r for one, r in model if one == left}
        assert multimap.has_key(left) == any(one == left for one, _ in model)
    for right in range(10, 15):
        assert multimap.keys_of(right) == {one for one, r in model if r == right}
    for pair in model:
        assert pair in multimap


@given(st.sets(pairs), edits)
def test_a_multimap_overlay_is_a_changed_copy_and_leaves_its_base(given_pairs, steps):
    base: MultiMap[int, int] = MultiMap()
    for pair in given_pairs:
        base.add(*pair)
    agree(base, given_pairs)
    overlay, model = MultiMapOverlay(base), set(given_pairs)
    edited(overlay, steps)
    for verb, pair in steps:
        model.add(pair) if verb == "add" else model.discard(pair)
    agree(overlay, model)
    agree(base, given_pairs)
    overlay.commit()
    agree(base, model)
    agree(overlay, model)


@given(edits)
def test_a_multimap_finds_pairs_by_either_side(steps):
    multimap: MultiMap[int, int] = MultiMap()
    model: set[tuple[int, int]] = set()
    edited(multimap, steps)
    for verb, pair in steps:
        model.add(pair) if verb == "add" else model.discard(pair)
    agree(multimap, model)
