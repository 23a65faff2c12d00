"""Value types: the check that a Python value fits an Arrow type.

Values that user functions write to a state are checked at once, not when a checkpoint is written: the error then points
at the line that wrote it. A value that fits is returned as Arrow itself would return it (a tuple for a struct as a
dict, numpy numbers as Python's), so it reads the same before and after a restore.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from kit.core.arrow_kinds import Family, kind_of
from kit.stream.backend.types.exact_values import InexactError, exact_array

Converter = Callable[[Any], Any]


class MisfitError(Exception):
    """A value that does not fit; the message says which part of it."""


@lru_cache(maxsize=256)
def converter(arrow_type: pa.DataType) -> Converter:
    """Return a function that converts a value to `arrow_type`, or raises MisfitError. None is not a value."""
    return _CONVERTERS[kind_of(arrow_type).python](arrow_type)


@lru_cache(maxsize=256)
def key_converter(arrow_type: pa.DataType) -> Converter:
    """Return the same for keys of a map, which must equal themselves to be found again: a NaN does not."""
    convert = converter(arrow_type)
    if kind_of(arrow_type).family is not Family.FLOAT:
        return convert

    def convert_key(value: Any) -> Any:
        converted = convert(value)
        if converted != converted:  # noqa: PLR0124
            raise MisfitError("a map cannot find the key NaN again, which is not equal to itself")
        return converted

    return convert_key


def _misfit(value: Any, arrow_type: pa.DataType) -> MisfitError:
    return MisfitError(f"{value!r} ({type(value).__name__}) is not {arrow_type}")


def _integer_converter(arrow_type: pa.DataType) -> Converter:
    info = np.iinfo(arrow_type.to_pandas_dtype())
    low, high = int(info.min), int(info.max)

    def convert(value: Any) -> int:
        if type(value) is not int:
            if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
                raise _misfit(value, arrow_type)
            value = int(value)
        if not low <= value <= high:
            raise MisfitError(f"{value} is outside {arrow_type}'s {low} to {high}")
        return value

    return convert


def _float_converter(arrow_type: pa.DataType) -> Converter:
    single = kind_of(arrow_type).width == 32

    def convert(value: Any) -> float:
        if type(value) is not float:
            if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, bool):
                raise _misfit(value, arrow_type)
            value = float(value)
        return float(np.float32(value)) if single else value

    return convert


def _string_converter(arrow_type: pa.DataType) -> Converter:
    def convert(value: Any) -> str:
        if not isinstance(value, str):
            raise _misfit(value, arrow_type)
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError as error:
                raise MisfitError(f"{value!r} has a lone surrogate, which UTF-8 cannot hold") from error
        return str(value)

    return convert


def _class_converter(arrow_type: pa.DataType, kept: type, *converted: type) -> Converter:
    def convert(value: Any) -> Any:
        if type(value) is kept:
            return value
        if not isinstance(value, converted):
            raise _misfit(value, arrow_type)
        return kept(value)

    return convert


def _struct_converter(arrow_type: pa.StructType) -> Converter:
    names = [field.name for field in arrow_type]
    converters = [converter(field.type) for field in arrow_type]

    def convert(value: Any) -> dict[str, Any]:
        if isinstance(value, Mapping):
            unknown = value.keys() - set(names)
            if unknown:
                raise MisfitError(f"{value!r} has fields {sorted(map(str, unknown))} that {arrow_type} does not have")
            parts = [value.get(name) for name in names]
        elif isinstance(value, (tuple, list)) and len(value) == len(names):
            parts = list(value)
        else:
            raise _misfit(value, arrow_type)
        return {
            name: None if part is None else convert_part(part)
            for name, convert_part, part in zip(names, converters, parts, strict=True)
        }

    return convert


def _list_converter(arrow_type: pa.ListType) -> Converter:
    convert_element = converter(arrow_type.value_type)

    def convert(value: Any) -> list[Any]:
        if not isinstance(value, (list, tuple, np.ndarray)):
            raise _misfit(value, arrow_type)
        return [None if element is None else convert_element(element) for element in value]

    return convert


def _arrow_converter(arrow_type: pa.DataType) -> Converter:
    def convert(value: Any) -> Any:
        try:
            return exact_array([value], arrow_type)[0].as_py()
        except InexactError as error:
            raise MisfitError(f"{_misfit(value, arrow_type)}: {error}") from None
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise _misfit(value, arrow_type) from error

    return convert


_CONVERTERS: dict[type | None, Callable[[Any], Converter]] = {
    int: _integer_converter,
    float: _float_converter,
    bool: lambda arrow_type: _class_converter(arrow_type, bool, np.bool_),
    str: _string_converter,
    bytes: lambda arrow_type: _class_converter(arrow_type, bytes, bytearray, memoryview),
    dict: _struct_converter,
    list: _list_converter,
    None: _arrow_converter,
}
"""The converters, by the class of a type's values (`ArrowKind.python`)."""
