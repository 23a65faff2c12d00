"""Dictionary encoding of strings that repeat, such as the words of a text.

Hashing a string, or looking it up, takes a pass for each of its bytes or for every eight of them. If a batch contains
few distinct strings, Arrow encodes them faster than that, and each distinct string is processed once. If most strings
of a batch are distinct, the encoding would be wasted; a sample of the first rows decides.
"""

from __future__ import annotations

import pyarrow as pa

MIN_ROWS = 1 << 13
"""The number of rows from which a dictionary pays."""
_SAMPLED = 16
_MOST_DISTINCT = 0.6
"""The share of a sixteenth of the rows. Measured: encoding pays until some 15 % of a whole batch are distinct, and then
about 0.65 of such a sample are."""


def as_dictionary(column: pa.Array) -> pa.DictionaryArray | None:
    """Return strings or bytes without nulls as a dictionary without unused values, or None if that does not pay."""
    rows = len(column)
    if rows < MIN_ROWS:
        return None
    sampled = rows // _SAMPLED
    if len(column.slice(0, sampled).dictionary_encode().dictionary) > _MOST_DISTINCT * sampled:
        return None
    return column.dictionary_encode()
