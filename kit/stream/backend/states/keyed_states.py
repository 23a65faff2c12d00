"""The kinds of keyed state: for each a table, and the view of it for a function that works on one key at a time.

A kind is a file with a `StateTable`, which defines how its entries are kept, added to and merged, and a `KeyedState`.
With TTL each kind has another table and view.
"""

from __future__ import annotations

from kit.stream.backend.states.aggregating_state import AggregatingState, AggregatingTable
from kit.stream.backend.states.descriptors import StateKind
from kit.stream.backend.states.list_state import ListState, ListTable
from kit.stream.backend.states.map_state import MapState, MapTable
from kit.stream.backend.states.reducing_state import ReducingState, ReducingTable
from kit.stream.backend.states.tables import KeyedState, StateTable
from kit.stream.backend.states.ttl_list_state import TtlListTable
from kit.stream.backend.states.ttl_map_state import TtlMapTable
from kit.stream.backend.states.ttl_table import TtlTable
from kit.stream.backend.states.ttl_values import TtlAggregatingTable, TtlReducingTable, TtlValueTable
from kit.stream.backend.states.value_state import ValueState, ValueTable

KINDS: dict[StateKind, type[StateTable]] = {
    table.kind: table for table in (ValueTable, ReducingTable, ListTable, MapTable, AggregatingTable)
}

TTL_KINDS: dict[StateKind, type[TtlTable]] = {
    table.kind: table for table in (TtlValueTable, TtlReducingTable, TtlListTable, TtlMapTable, TtlAggregatingTable)
}
"""The tables of states with TTL."""

__all__ = [
    "KINDS",
    "TTL_KINDS",
    "AggregatingState",
    "KeyedState",
    "ListState",
    "MapState",
    "ReducingState",
    "ValueState",
]
