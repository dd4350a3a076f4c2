import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netfw.ovs.ovsdb.json_stream import JsonStream

text = st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from('{}[]"\\ü€😀\n')))
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)
messages = st.lists(st.dictionaries(text, values, max_size=4), max_size=5)


def read(pieces: list[bytes]) -> list[object]:
    stream, found = JsonStream(), []
    for piece in pieces:
        stream.feed(piece)
        while (message := stream.take()) is not None:
            found.append(message)
    assert not stream.pending
    return found


@settings(max_examples=40)
@given(messages, st.booleans(), st.sampled_from(["", " ", "\n\t"]), st.data())
def test_messages_come_out_as_they_went_in_however_they_were_cut(wanted, ascii_only, gap, data):
    wire = "".join(json.dumps(m, ensure_ascii=ascii_only) + gap for m in wanted).encode().rstrip()
    cuts = sorted(data.draw(st.sets(st.integers(0, len(wire)), max_size=20)))
    pieces = [wire[a:b] for a, b in pairwise([0, *cuts, len(wire)])]
    assert read(pieces) == wanted


@settings(max_examples=25)
@given(messages)
def test_messages_come_out_byte_by_byte(wanted):
    wire = "".join(json.dumps(message, ensure_ascii=False) for message in wanted).encode()
    assert read([wire[i : i + 1] for i in range(len(wire))]) == wanted


@pytest.mark.parametrize(
    "wire", [b"[]", b"nonsense", b"}", b'{"a": NaN}', b'{"a" 1}', b'{"\xff": 1}', b'{"a": ]}']
)
def test_what_is_no_json_object_is_refused(wire):
    with pytest.raises(ValueError):
        read([wire])


def test_a_message_of_a_megabyte_is_read_in_time_that_grows_with_its_size():
    message = {"rows": [{"name": f"tap{i}", "text": 'a "quoted" {brace}'} for i in range(20_000)]}
    wire = json.dumps(message).encode()
    assert len(wire) > 1_000_000
    assert read([wire[i : i + 4096] for i in range(0, len(wire), 4096)]) == [message]
