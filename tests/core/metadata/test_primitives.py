"""Modified UTF-8, as `java.io.DataOutput.writeUTF` defines it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.metadata.primitives import decode_modified_utf8, encode_modified_utf8


@pytest.mark.parametrize(
    ("text", "encoded"),
    [
        ("", ""),
        ("az\x7f", "617a7f"),
        ("\0", "c080"),
        ("\x80\u07ff", "c280dfbf"),
        ("\u0800中\uffff", "e0a080e4b8adefbfbf"),
        ("\U00010000", "eda080edb080"),
        ("\U0010ffff", "edafbfedbfbf"),
        ("a🧀\0", "61eda0beedb780c080"),
        ("\ud800", "eda080"),
    ],
)
def test_known_encodings(text: str, encoded: str) -> None:
    assert encode_modified_utf8(text).hex() == encoded
    assert decode_modified_utf8(bytes.fromhex(encoded)) == text


@given(st.text())
def test_any_text_comes_back(text: str) -> None:
    assert decode_modified_utf8(encode_modified_utf8(text)) == text


@given(st.text())
def test_it_is_utf16_with_each_unit_encoded_by_itself(text: str) -> None:
    units = text.encode("utf-16-be")
    each = (chr(int.from_bytes(units[i : i + 2], "big")) for i in range(0, len(units), 2))
    expected = b"".join(b"\xc0\x80" if unit == "\0" else unit.encode("utf-8", "surrogatepass") for unit in each)
    assert encode_modified_utf8(text) == expected


@pytest.mark.parametrize("damaged", ["80", "c3", "e4b8", "f09fa780", "ff", "c3c080"])
def test_other_bytes_are_refused(damaged: str) -> None:
    with pytest.raises(UnicodeError):
        decode_modified_utf8(bytes.fromhex(damaged))
