"""Pairs of jobs: a savepoint of the first is restored to the second, by Flink, and judged by `Checkpoint.check`.

A job is written as `RestoreCases.java` reads it: its settings, then its operators behind a source with uid `numbers`.
"""

from __future__ import annotations

from dataclasses import dataclass

ORDER = "classes=Order{long id; String name;}"
COUNTER = "keyed uid=a key=long states=total:value:long"


@dataclass(frozen=True)
class Case:
    """A job whose savepoint is taken, and the job that is restored from it.

    With `allow`, state without an operator is dropped. `is_open` marks a case in which the outcome depends on what no
    savepoint holds, so that the check can only warn. The newer job is given to the check as a checkpoint that it
    took, or as `uids`.
    """

    name: str
    before: str
    after: str
    allow: bool = False
    is_open: bool = False
    uids: tuple[str, ...] = ()


def _keyed(states: str, more: str = "") -> str:
    return f"keyed uid=a key=long states={states}{more}"


def _typed(name: str, before: str, after: str, classes: tuple[str, str] = ("", ""), **more: bool) -> Case:
    """A case of a value state whose type changes."""
    old, new = (f"p=2 {each}".strip() for each in classes)
    return Case(name, f"{old} | {_keyed(f's:value:{before}')}", f"{new} | {_keyed(f's:value:{after}')}", **more)


def _pojo(name: str, before: str, after: str, type_: str = "pojo(Order)", **more: bool) -> Case:
    return _typed(name, type_, type_, (f"classes={before}", f"classes={after}"), **more)


CASES = (
    # --- operators
    Case("same job", f"p=2 | {COUNTER}", f"p=2 | {COUNTER}"),
    Case("uid renamed", f"p=2 | {COUNTER}", f"p=2 | {COUNTER.replace('uid=a', 'uid=b')}"),
    Case("uid renamed, allowed", f"p=2 | {COUNTER}", f"p=2 | {COUNTER.replace('uid=a', 'uid=b')}", allow=True),
    Case("operator dropped", f"p=2 | {COUNTER}", "p=2 | map uid=m"),
    Case("operator dropped, allowed", f"p=2 | {COUNTER}", "p=2 | map uid=m", allow=True),
    Case("operator without state dropped", f"p=2 | map uid=m rebalance=1 | {COUNTER}", f"p=2 | {COUNTER}"),
    Case("operator added", f"p=2 | {COUNTER}", f"p=2 | {COUNTER} | keyed uid=b key=string states=x:list:long"),
    Case(
        "uid by hash",
        f"p=2 | {COUNTER}",
        f"p=2 | {COUNTER.replace('uid=a', 'uid=b hash=HASH_OF_a')}",
        uids=("numbers", "HASH_OF_a", "counted", "end"),
    ),
    Case("chaining disabled", f"p=2 | {COUNTER}", f"p=2 chaining=0 | {COUNTER}"),
    # --- parallelism
    Case("parallelism up", f"p=2 | {COUNTER}", f"p=3 | {COUNTER}"),
    Case("parallelism down", f"p=3 | {COUNTER}", f"p=1 | {COUNTER}"),
    Case("max parallelism the same", f"p=2 maxp=64 | {COUNTER}", f"p=3 maxp=64 | {COUNTER}"),
    Case("max parallelism up", f"p=2 maxp=64 | {COUNTER}", f"p=2 maxp=256 | {COUNTER}"),
    Case("max parallelism down", f"p=2 maxp=64 | {COUNTER}", f"p=2 maxp=32 | {COUNTER}"),
    Case("max parallelism left to Flink", f"p=2 maxp=64 | {COUNTER}", f"p=2 | {COUNTER}"),
    Case("max parallelism set to the default", f"p=2 maxp=64 | {COUNTER}", f"p=2 maxp=128 | {COUNTER}"),
    Case("max parallelism fixed at the default", f"p=2 | {COUNTER}", f"p=2 maxp=128 | {COUNTER}"),
    Case("parallelism above the maximum", f"p=2 maxp=4 | {COUNTER}", f"p=5 | {COUNTER}"),
    Case("parallelism equal to the maximum", f"p=2 maxp=4 | {COUNTER}", f"p=4 | {COUNTER}"),
    Case(
        "max parallelism of an operator without state",
        f"p=2 | map uid=m rebalance=1 maxp=64 | {COUNTER}",
        f"p=2 | map uid=m rebalance=1 maxp=32 | {COUNTER}",
    ),
    # --- POJOs
    _pojo("POJO field added", "Order{long id;}", "Order{long id; String name;}"),
    _pojo("POJO field removed", "Order{long id; String name;}", "Order{long id;}"),
    _pojo("POJO field added and another removed", "Order{long id; String name;}", "Order{long id; int size;}"),
    _pojo("POJO field renamed", "Order{long id; String name;}", "Order{long id; String title;}"),
    _pojo("POJO fields reordered", "Order{long id; String name;}", "Order{String name; long id;}"),
    _pojo("POJO field of another type", "Order{long id; String name;}", "Order{long id; int name;}"),
    _pojo("POJO field boxed", "Order{long id;}", "Order{Long id;}"),
    _pojo(
        "POJO nested field added",
        "Order{long id; Item item;}/Item{int n;}",
        "Order{long id; Item item;}/Item{int n; String of;}",
    ),
    _pojo(
        "POJO nested field of another type",
        "Order{long id; Item item;}/Item{int n;}",
        "Order{long id; Item item;}/Item{String n;}",
    ),
    _typed(
        "POJO class renamed",
        "pojo(Order)",
        "pojo(Bill)",
        ("classes=Order{long id;}", "classes=Order{long id;}/Bill{long id;}"),
    ),
    _typed("POJO class gone", "pojo(Order)", "pojo(Bill)", ("classes=Order{long id;}", "classes=Bill{long id;}")),
    _typed(
        "POJO inside a list",
        "list(pojo(Order))",
        "list(pojo(Order))",
        ("classes=Order{long id;}", "classes=Order{long id; int n;}"),
    ),
    _typed(
        "POJO inside a tuple",
        "tuple(long,pojo(Order))",
        "tuple(long,pojo(Order))",
        ("classes=Order{long id;}", "classes=Order{long id; int n;}"),
    ),
    _pojo("enum constant added", "Order{Color c;}/enum:Color{RED,BLUE}", "Order{Color c;}/enum:Color{RED,BLUE,GREEN}"),
    _pojo("enum constant removed", "Order{Color c;}/enum:Color{RED,BLUE}", "Order{Color c;}/enum:Color{RED}"),
    _pojo("enum constants reordered", "Order{Color c;}/enum:Color{RED,BLUE}", "Order{Color c;}/enum:Color{BLUE,RED}"),
    _typed("POJO as Kryo", "pojo(Order)", "kryo(Order)", ("classes=Order{long id;}", "classes=Order{long id;}")),
    _typed("Kryo the same", "kryo(Thing)", "kryo(Thing)", ("classes=Thing{long id;}", "classes=Thing{long id;}")),
    _typed(
        "Kryo of another class",
        "kryo(Thing)",
        "kryo(Other)",
        ("classes=Thing{long id;}/Other{long id;}", "classes=Thing{long id;}/Other{long id;}"),
    ),
    _typed(
        "Kryo field of another type",
        "kryo(Thing)",
        "kryo(Thing)",
        ("classes=Thing{long id; String s;}", "classes=Thing{String s;}"),
        is_open=True,
    ),
    # --- other types
    _typed("long to string", "long", "string"),
    _typed("int to long", "int", "long"),
    _typed("tuple of another arity", "tuple(long,string)", "tuple(long,string,int)"),
    _typed("tuple field of another type", "tuple(long,string)", "tuple(long,int)"),
    _typed("row field added", "row(long,string)", "row(long,string,int)"),
    _typed("either the same", "either(long,string)", "either(long,string)"),
    _typed("either of another side", "either(long,string)", "either(long,int)"),
    _typed("map of another value", "map(string,long)", "map(string,int)"),
    _typed("array to list", "ints", "list(int)"),
    # --- states
    Case("value to list", f"p=2 | {_keyed('s:value:long')}", f"p=2 | {_keyed('s:list:long')}"),
    Case("list to map", f"p=2 | {_keyed('s:list:long')}", f"p=2 | {_keyed('s:map:long')}"),
    Case("value to reducing", f"p=2 | {_keyed('s:value:long')}", f"p=2 | {_keyed('s:reducing:long')}"),
    Case("list of another element", f"p=2 | {_keyed('s:list:long')}", f"p=2 | {_keyed('s:list:string')}"),
    Case(
        "list of an evolved POJO",
        f"p=2 classes=Order{{long id;}} | {_keyed('s:list:pojo(Order)')}",
        f"p=2 classes=Order{{long id; int n;}} | {_keyed('s:list:pojo(Order)')}",
    ),
    Case(
        "map of an evolved POJO",
        f"p=2 classes=Order{{long id;}} | {_keyed('s:map:pojo(Order)')}",
        f"p=2 classes=Order{{long id; int n;}} | {_keyed('s:map:pojo(Order)')}",
    ),
    Case("state renamed", f"p=2 | {_keyed('s:value:long')}", f"p=2 | {_keyed('t:value:long')}"),
    Case("state added", f"p=2 | {_keyed('s:value:long')}", f"p=2 | {_keyed('s:value:long;t:map:string')}"),
    Case("TTL switched on", f"p=2 | {_keyed('s:value:long')}", f"p=2 | {_keyed('s:value:long:ttl')}"),
    Case("TTL switched off", f"p=2 | {_keyed('s:value:long:ttl')}", f"p=2 | {_keyed('s:value:long')}"),
    Case(
        "TTL of an evolved POJO",
        f"p=2 classes=Order{{long id;}} | {_keyed('s:value:pojo(Order):ttl')}",
        f"p=2 classes=Order{{long id; int n;}} | {_keyed('s:value:pojo(Order):ttl')}",
    ),
    # --- keys and timers
    Case("key of another type", f"p=2 | {COUNTER}", f"p=2 | {COUNTER.replace('key=long', 'key=string')}"),
    Case("key long to int", f"p=2 | {COUNTER}", f"p=2 | {COUNTER.replace('key=long', 'key=int')}"),
    Case(
        "key POJO evolved",
        "p=2 classes=K{long id;} | keyed uid=a key=pojo(K) states=s:value:long",
        "p=2 classes=K{long id; int n;} | keyed uid=a key=pojo(K) states=s:value:long",
    ),
    Case("timers", f"p=2 | {COUNTER} timers=1", f"p=3 | {COUNTER} timers=1"),
    Case("timers without the state", "p=2 | keyed uid=a key=long timers=1", "p=2 | keyed uid=a key=string timers=1"),
    Case("timers no longer used", f"p=2 | {COUNTER} timers=1", f"p=2 | {COUNTER}"),
    Case("keyed operator becomes a map", f"p=2 | {COUNTER}", "p=2 | map uid=a"),
    # --- windows
    Case("window rescaled", "p=2 | tumbling uid=w key=long", "p=3 | tumbling uid=w key=long"),
    Case("window of another kind", "p=2 | tumbling uid=w key=long", "p=2 | global uid=w key=long"),
    Case("window contents of another kind", "p=2 | tumbling uid=w key=long", "p=2 | windowlist uid=w key=long"),
    # --- operator state
    Case(
        "list state rescaled",
        "p=2 | listed uid=l states=x:split:long;y:union:string",
        "p=3 | listed uid=l states=x:split:long;y:union:string",
    ),
    Case(
        "list state of another type",
        "p=2 | listed uid=l states=x:split:long",
        "p=2 | listed uid=l states=x:split:string",
    ),
    Case(
        "split list to union list", "p=2 | listed uid=l states=x:split:long", "p=2 | listed uid=l states=x:union:long"
    ),
    Case("list state renamed", "p=2 | listed uid=l states=x:split:long", "p=2 | listed uid=l states=y:split:long"),
    Case(
        "list state of an evolved POJO",
        "p=2 classes=Order{long id;} | listed uid=l states=x:split:pojo(Order)",
        "p=2 classes=Order{long id; int n;} | listed uid=l states=x:split:pojo(Order)",
    ),
    Case(
        "broadcast rescaled",
        "p=2 | broadcast uid=b state=rules type=long",
        "p=3 | broadcast uid=b state=rules type=long",
    ),
    Case(
        "broadcast of another type",
        "p=2 | broadcast uid=b state=rules type=long",
        "p=2 | broadcast uid=b state=rules type=string",
    ),
    Case(
        "broadcast of an evolved POJO",
        "p=2 classes=Order{long id;} | broadcast uid=b state=rules type=pojo(Order)",
        "p=2 classes=Order{long id; int n;} | broadcast uid=b state=rules type=pojo(Order)",
    ),
    # --- sinks
    Case("file sink rescaled", "p=2 | filesink uid=out", "p=3 | filesink uid=out"),
    Case("file sink dropped", "p=2 | filesink uid=out", "p=2 | discard uid=out"),
    Case("file sink dropped, allowed", "p=2 | filesink uid=out", "p=2 | discard uid=out", allow=True),
    # --- RocksDB
    Case("heap to RocksDB", f"p=2 | {COUNTER}", f"p=2 backend=rocksdb | {COUNTER}"),
    Case(
        "POJO field added, in RocksDB",
        f"p=2 {ORDER} backend=rocksdb | {_keyed('s:value:pojo(Order)')}",
        f"p=2 classes=Order{{long id; String name; int n;}} backend=rocksdb | {_keyed('s:value:pojo(Order)')}",
    ),
    Case(
        "map key state of another type, in RocksDB",
        f"p=2 backend=rocksdb | {_keyed('s:map:long')}",
        f"p=2 backend=rocksdb | {_keyed('s:map:string')}",
    ),
    # --- in flight
    Case(
        "in flight, the same job", f"p=2 unaligned=1 | {COUNTER} pause=2000", f"p=2 unaligned=1 | {COUNTER} pause=2000"
    ),
    Case("in flight, rescaled", f"p=2 unaligned=1 | {COUNTER} pause=2000", f"p=3 unaligned=1 | {COUNTER} pause=2000"),
    Case("in flight, operator dropped", f"p=2 unaligned=1 | {COUNTER} pause=2000", "p=2 | map uid=m", allow=True),
)
