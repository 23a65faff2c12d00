"""The program of the student's process: it runs the student's cells and answers the grader's calls.

It needs the standard library only, and is started without site-packages. Each line on the pipe is one message in JSON;
`encode` and `decode` say what a value looks like there. An object of the grader's is a `Ref`, with a number that has a
meaning only for the part that holds it.

Nothing in this process is secret, and no message is a verdict, so the student's code may see and change all of it.
"""

from __future__ import annotations

import _imp
import base64
import importlib.abc
import importlib.machinery
import io
import json
import logging
import os
import pickle
import posix
import sys
import types
import warnings
from collections import Counter
from typing import Any

STUDENT = "student"


class Ref:
    """An object of the grader's process: its number, the names of its classes, and what may be seen of it."""

    def __init__(self, number: int, classes: tuple[str, ...], values: dict[str, Any], surface: dict[str, Any]) -> None:
        self.__dict__.update(_number=number, _classes=classes, _values=values, _surface=surface)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._values:
            return self._values[name]
        if name in self._surface["methods"]:
            return lambda *given, **named: LINK.ask("do", self._number, name, given, named)
        if name in self._surface["attributes"]:
            return LINK.ask("attribute", self._number, name)
        raise AttributeError(f"{self._classes[0]} has no {name!r} that a part of yours may use")

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{self._classes[0]}.{name} cannot be changed: it is not yours")

    def __call__(self, *given: Any, **named: Any) -> Any:
        return LINK.ask("do", self._number, "", given, named)

    def __iter__(self) -> Any:
        return iter(LINK.ask("attribute", self._number, "[]"))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ref) and other._number == self._number

    def __hash__(self) -> int:
        return hash(("ref", self._number))

    def __repr__(self) -> str:
        return f"<{self._classes[0]} {self._values or ''}>"

    def __reduce__(self) -> Any:
        return Ref, (self._number, self._classes, self._values, self._surface)

    def __deepcopy__(self, memo: Any) -> Ref:
        return self


class KindOf(type):
    """A class of the kit, for `isinstance` only."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Ref) and cls.__name__ in value._classes


class Named:
    """A member of one of the kit's enumerations."""

    def __init__(self, kind: str, name: str) -> None:
        self.kind, self.name = kind, name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and (other.kind, other.name) == (self.kind, self.name)

    def __hash__(self) -> int:
        return hash((self.kind, self.name))

    def __reduce__(self) -> Any:
        return member, (self.kind, self.name)

    def __repr__(self) -> str:
        return f"{self.kind}.{self.name}"


MEMBERS: dict[tuple[str, str], Named] = {}


def member(kind: str, name: str) -> Named:
    """Return the one object for this member, so that `is` works."""
    return MEMBERS.setdefault((kind, name), Named(kind, name))


class Base:
    """The base of a part: methods that the student does not write are the grader's."""

    _given: tuple[str, ...] = ()
    _methods: tuple[str, ...] = ()

    def __init__(self, *given: Any, **named: Any) -> None:
        self.__dict__.update(zip(self._given, given))

    def __getattr__(self, name: str) -> Any:
        if name in type(self)._methods:
            return lambda *given, **named: LINK.ask("do", 0, name, given, named)
        if name == "context":
            return LINK.ask("attribute", 0, name)
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")


class NotOffered:
    """A name of the kit that a part cannot use in grading."""

    def __init__(self, name: str) -> None:
        self.__dict__["_name"] = name

    def _refuse(self, *given: Any, **named: Any) -> Any:
        raise ImportError(
            f"{self.__dict__['_name']} is not available here: your part is your own work, with the names of the lab"
        )

    __call__ = __getattr__ = __setattr__ = __getitem__ = __mro_entries__ = __iter__ = _refuse


def offered(module: str, name: str, spec: Any) -> Any:
    """Return what stands for a name of the kit."""
    kind = spec[0] if spec else ""
    if kind == "base":
        return type(name, (Base,), {"_given": tuple(spec[1]), "_methods": tuple(spec[2]), "__module__": module})
    if kind == "kind":
        return KindOf(name, (), {})
    if kind == "enum":
        return type(name, (), {each: member(name, each) for each in spec[1]})
    if kind == "value":
        return value_class(name, spec[1])
    if kind == "function":
        return lambda *given, **named: LINK.ask("offer", name, given, named)
    return NotOffered(f"{module}.{name}")


VALUES: dict[str, type] = {}


def value_class(name: str, fields: list[str]) -> type:
    """Return the class for a value that the student may make; it has these fields, in this order."""

    def init(self: Any, *given: Any, **named: Any) -> None:
        self.__dict__.update(zip(fields, given), **named)

    def same(self: Any, other: Any) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def made(self: Any) -> Any:
        return _value, (name, vars(self))

    parts = {
        "__init__": init,
        "__eq__": same,
        "__hash__": lambda self: hash(name),
        "__reduce__": made,
        "_fields": tuple(fields),
    }
    return VALUES.setdefault(name, type(name, (), parts))


def _value(name: str, fields: dict[str, Any]) -> Any:
    return VALUES[name](**fields)


class Importer(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules of the kit with the names that the lab offers; others can be imported and not used."""

    def __init__(self, names: dict[str, dict[str, Any]]) -> None:
        self.names = names

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] not in ("kit", "widgets", "jobs"):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> Any:
        module = types.ModuleType(spec.name)
        known = self.names.get(spec.name, {})
        made = {name: offered(spec.name, name, each) for name, each in known.items()}
        module.__dict__.update(made)
        module.__getattr__ = lambda name: _missing(spec.name, name)  # type: ignore[method-assign]
        return module

    def exec_module(self, module: Any) -> None:
        return None


def _missing(module: str, name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return NotOffered(f"{module}.{name}")


# --- values on the pipe ----------------------------------------------------------------------------------------------

FUNCTIONS: list[Any] = []


def encode(value: Any, depth: int = 0) -> Any:
    """Return a value as JSON; plain values as they are, others as a list with a tag."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if depth > 30:
        raise ValueError("a value is nested too deeply")
    below = depth + 1
    if isinstance(value, Ref):
        return ["r", value._number]
    if isinstance(value, Named):
        return ["e", value.kind, value.name]
    if isinstance(value, bytes | bytearray):
        return ["b", base64.b64encode(value).decode()]
    if isinstance(value, dict):
        return ["d", [[encode(key, below), encode(each, below)] for key, each in value.items()]]
    if isinstance(value, tuple | list | set | frozenset):
        tag = "t" if isinstance(value, tuple) else "l" if isinstance(value, list) else "s"
        return [tag, [encode(each, below) for each in value]]
    if type(value).__name__ in VALUES and type(value) is VALUES[type(value).__name__]:
        fields = vars(type(value))["_fields"]
        return [
            "c",
            type(value).__name__,
            [[each, encode(vars(value)[each], below)] for each in fields if each in vars(value)],
        ]
    if callable(value) and not isinstance(value, type):
        FUNCTIONS.append(value)
        return ["f", len(FUNCTIONS) - 1]
    if (hasattr(value, "__iter__") and hasattr(value, "__next__")) or isinstance(value, range | filter | map):
        return ["l", [encode(each, below) for each in value]]
    return ["x", type(value).__name__]


def decode(value: Any) -> Any:
    """Return the value that the grader has sent."""
    if not isinstance(value, list):
        return value
    tag = value[0]
    if tag == "r":
        known: Any = SURFACES.setdefault(value[2], value[4]) if len(value) > 4 else SURFACES[value[2]]
        fields = {name: decode(each) for name, each in value[3].items()}
        return Ref(value[1], tuple(known["classes"]), fields, known)
    if tag == "e":
        return member(value[1], value[2])
    if tag == "b":
        return base64.b64decode(value[1])
    if tag == "d":
        return {decode(key): decode(each) for key, each in value[1]}
    if tag == "k":
        return Counter({decode(key): each for key, each in value[1]})
    if tag == "c":
        return VALUES[value[1]](**{name: decode(each) for name, each in value[2]})
    made = [decode(each) for each in value[1]]
    return made if tag == "l" else tuple(made) if tag == "t" else set(made)


SURFACES: dict[str, Any] = {}
SHARED: dict[int, Any] = {}
"""Functions, classes and modules that copies share, by `id`: they are kept, so no other object gets the number."""


class Pickler(pickle.Pickler):
    """Copies of a part: its state, without the grader's objects and without functions, which are shared."""

    def __init__(self, file: Any, order: list[int]) -> None:
        super().__init__(file, 4)
        self.order = order

    def persistent_id(self, value: Any) -> Any:
        if isinstance(value, Ref):
            if value._number not in self.order:
                self.order.append(value._number)
            return "r", self.order.index(value._number), value._classes, value._values, value._surface["name"]
        if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType | types.ModuleType):
            SHARED[id(value)] = value
            return "s", id(value)
        return None


class Unpickler(pickle.Unpickler):
    """The other way."""

    def persistent_load(self, found: Any) -> Any:
        if found[0] == "s":
            return SHARED[found[1]]
        return Ref(found[1], found[2], found[3], SURFACES[found[4]])


# --- the pipe --------------------------------------------------------------------------------------------------------


class Link:
    """The pipe: requests of the grader's come in, and calls of the part's go out while one is served."""

    def __init__(self, reading: int, writing: int) -> None:
        self._in = os.fdopen(reading, "r", encoding="utf-8", newline="\n")
        self._out = os.fdopen(writing, "w", encoding="utf-8", newline="\n")
        self.objects: dict[int, Any] = {}
        self._next = 0

    def send(self, *message: Any) -> None:
        """Send one message."""
        self._out.write(json.dumps(message) + "\n")
        self._out.flush()

    def ask(self, what: str, *given: Any) -> Any:
        """Call the grader, and serve its requests until it answers."""
        self.send(what, *(encode(each) for each in given))
        return self.serve(nested=True)

    def serve(self, *, nested: bool = False) -> Any:
        """Serve requests; with `nested`, until the answer to a call has come."""
        while True:
            line = self._in.readline()
            if not line:
                os._exit(0)
            what, *given = json.loads(line)
            if what == "value":
                if nested:
                    return decode(given[0])
                continue
            if what == "raise":
                raise RuntimeError(given[0])
            try:
                self.send("value", *getattr(self, f"do_{what}")(*given))
            except BaseException as error:
                self.send("raise", *explained(error))

    def do_offer(self, names: Any) -> tuple[Any, ...]:
        """Offer these names of the kit."""
        sys.meta_path.insert(0, Importer(names))
        return (None,)

    def do_run(self, code: str, name: str) -> tuple[Any, ...]:
        """Run a cell of the student's."""
        exec(compile(code, name, "exec"), sys.modules[STUDENT].__dict__)
        return (None,)

    def do_global(self, name: str) -> tuple[Any, ...]:
        """Return a global value."""
        return (encode(sys.modules[STUDENT].__dict__[name]),)

    def do_new(self, name: str, given: Any, named: Any) -> tuple[Any, ...]:
        """Make a part."""
        made = sys.modules[STUDENT].__dict__[name](*decode(given), **decode(named))
        self._next += 1
        self.objects[self._next] = made
        return (self._next,)

    def do_call(self, number: int, path: str, given: Any, named: Any) -> tuple[Any, ...]:
        """Call a method of a part; lists that it has changed in place are reported."""
        values = decode(given)
        before = [list(each) if isinstance(each, list) else None for each in values]
        result = self._at(number, path)(*values, **decode(named))
        found = encode(result)
        changed = {str(place): encode(each) for place, each in enumerate(values) if before[place] not in (None, each)}
        return found, changed

    def do_get(self, number: int, path: str) -> tuple[Any, ...]:
        """Return an attribute of a part."""
        return (encode(self._at(number, path)),)

    def _at(self, number: int, path: str) -> Any:
        value = self.objects[number]
        for name in path.split("."):
            value = getattr(value, name)
        return value

    def do_apply(self, number: int, given: Any) -> tuple[Any, ...]:
        """Call a function: one by its number, or a global one by its name."""
        function = FUNCTIONS[number] if isinstance(number, int) else sys.modules[STUDENT].__dict__[number]
        return (encode(function(*decode(given))),)

    def do_copy(self, number: int) -> tuple[Any, ...]:
        """Copy a part; the grader's objects that it holds get numbers in the order in which it holds them."""
        data, order = self._packed(number)
        self._next += 1
        self.objects[self._next] = Unpickler(io.BytesIO(data)).load()
        return self._next, order

    def do_digest(self, number: int) -> tuple[Any, ...]:
        """Return the state of a part as text, and the grader's objects that it holds."""
        data, order = self._packed(number)
        return base64.b64encode(data).decode(), order

    def _packed(self, number: int) -> tuple[bytes, list[int]]:
        order: list[int] = [0]
        file = io.BytesIO()
        Pickler(file, order).dump(self.objects[number])
        return file.getvalue(), order

    def do_free(self, numbers: list[int]) -> tuple[Any, ...]:
        """Forget parts that are not used any more."""
        for number in numbers:
            self.objects.pop(number, None)
        return (None,)


def explained(error: BaseException) -> tuple[str, str, str]:
    """Return the type of an error, its text, and the student's function and line."""
    where, at = "Your code", error.__traceback__
    while at is not None:
        if at.tb_frame.f_globals.get("__name__") == STUDENT:
            where = f"`{at.tb_frame.f_code.co_name}`, line {at.tb_lineno} of its cell"
        at = at.tb_next
    return type(error).__name__, str(error), where


MODULES = (
    "abc array base64 binascii bisect calendar cmath codecs collections collections.abc contextlib copy copyreg csv"
    " dataclasses datetime decimal difflib encodings.ascii encodings.latin_1 encodings.utf_8 enum errno fractions"
    " functools graphlib hashlib heapq html inspect io itertools json keyword linecache logging math numbers operator"
    " os os.path pickle pprint queue random re reprlib statistics string struct sys textwrap threading time"
    " traceback types typing unicodedata warnings weakref zlib"
)
"""The modules that the student's code may import; they are loaded before it runs, and nothing is loaded afterwards."""
EVENTS = (
    "compile exec import builtins.id code.__new__ function.__new__ object.__getattr__ object.__setattr__"
    " object.__delattr__ pickle.find_class sys._getframe sys._getframemodulename sys._current_frames"
    " sys.excepthook sys.unraisablehook sys.setprofile sys.settrace time.sleep threading.setprofile"
    " threading.settrace _thread.start_new_thread _thread.start_joinable_thread array.__new__ marshal.loads"
    " marshal.dumps marshal.load"
)
ALLOWED = frozenset(EVENTS.split())
"""The audit events that a computation needs. All others are refused: files, processes, sockets, signals, limits."""
CALLS = (
    "_exit close cpu_count dup fspath fstat getcwd getpid get_terminal_size isatty lstat pipe read stat strerror"
    " times urandom write"
)
OF_THE_SYSTEM = frozenset(CALLS.split())
"""The functions of the operating system that stay; many others raise no audit event, such as those that make files."""


def _without_the_system() -> None:
    """Take away all functions of the operating system but those of `OF_THE_SYSTEM`, and all about signals."""
    for module in (posix, os, sys.modules["_signal"]):
        for name, value in list(vars(module).items()):
            is_of_the_system = getattr(value, "__module__", None) in ("posix", "_signal", "signal")
            if is_of_the_system and callable(value) and not isinstance(value, type) and name not in OF_THE_SYSTEM:
                delattr(module, name)
    for name in ("supports_bytes_environ", "supports_dir_fd", "supports_effective_ids", "supports_fd"):
        setattr(os, name, frozenset())
    os.supports_follow_symlinks = frozenset()  # type: ignore[assignment]


def _guarded() -> None:
    """Load the modules of `MODULES`, take away what loads others, and refuse all events but those of `ALLOWED`.

    Student's code may replace any name of this module and of Python's builtins. So the hook uses values that are bound
    when it is defined, and nothing leads to it: the module of the garbage collector is not loaded.
    """
    for name in MODULES.split():
        importlib.import_module(name)
    sys.meta_path[:] = [each for each in sys.meta_path if isinstance(each, Importer)]
    sys.meta_path.append(Unknown())
    sys.path_hooks.clear()
    sys.path.clear()
    for name in (
        "create_builtin",
        "exec_builtin",
        "create_dynamic",
        "exec_dynamic",
        "init_frozen",
        "get_frozen_object",
    ):
        if hasattr(_imp, name):
            delattr(_imp, name)

    _without_the_system()

    def audit(event: str, given: Any, allowed: Any = ALLOWED, refused: Any = PermissionError) -> None:
        if event not in allowed:
            raise refused(f"{event} is not available here: a part computes, and nothing else")

    sys.addaudithook(audit)


class Unknown(importlib.abc.MetaPathFinder):
    """The end of the search for a module: it says that a part cannot use it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        raise ImportError(f"{name} is not available here: a part computes, with Python's own modules for that")


LINK: Any = None


def main() -> None:
    """Take the pipe, silence what is printed, and serve."""
    global LINK  # noqa: PLW0603
    LINK = Link(os.dup(0), os.dup(1))
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    logging.raiseExceptions = False
    warnings.simplefilter("ignore")
    student = types.ModuleType(STUDENT)
    sys.modules[STUDENT] = student
    _guarded()
    LINK.serve()


if __name__ == "__main__":
    main()
