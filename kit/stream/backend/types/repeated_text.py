"""Strings that come again and again, as the words of a text do: each of a batch once, and numbers.

To hash a string, or to look it up, takes a pass for each of its bytes or for every eight of them. Where a batch names
few strings often, Arrow numbers them faster than that, and what has to be known of a string is worked out once. A batch
that names most of its strings once would pay for both; a sample of its first rows tells the two apart.
"""

from __future__ import annotations

import pyarrow as pa

MIN_ROWS = 1 << 13
"""Fewer are done before a dictionary pays."""
_SAMPLED = 16
_MOST_DISTINCT = 0.6
"""Of a sixteenth of the rows. Measured: numbering pays until some 15 % of a whole batch are distinct, and then about
0.65 of such a sample are.
"""


def as_dictionary(column: pa.Array) -> pa.DictionaryArray | None:
    """The strings or bytes of a column without nulls numbered, each of them used; None where that would not pay."""
    rows = len(column)
    if rows < MIN_ROWS:
        return None
    sampled = rows // _SAMPLED
    if len(column.slice(0, sampled).dictionary_encode().dictionary) > _MOST_DISTINCT * sampled:
        return None
    return column.dictionary_encode()
