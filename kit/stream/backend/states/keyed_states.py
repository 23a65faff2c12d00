"""The kinds of keyed state: for each a table, and the view of it for a function that works on one key at a time.

A kind is a file with a `StateTable`, which defines how its entries are kept, added to and merged, and a `KeyedState`.
"""

from __future__ import annotations

from kit.stream.backend.states.aggregating_state import AggregatingState, AggregatingTable
from kit.stream.backend.states.descriptors import StateKind
from kit.stream.backend.states.list_state import ListState, ListTable
from kit.stream.backend.states.map_state import MapState, MapTable
from kit.stream.backend.states.reducing_state import ReducingState, ReducingTable
from kit.stream.backend.states.tables import KeyedState, StateTable
from kit.stream.backend.states.value_state import ValueState, ValueTable

KINDS: dict[StateKind, type[StateTable]] = {
    table.kind: table for table in (ValueTable, ReducingTable, ListTable, MapTable, AggregatingTable)
}

__all__ = ["KINDS", "AggregatingState", "KeyedState", "ListState", "MapState", "ReducingState", "ValueState"]
