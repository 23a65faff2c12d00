"""The counters of slots as the metrics of their Spark tasks, which Spark's UI and its REST API show.

Only Java code can set the metrics of a task, and a slot is Python. So each slot sends rows of counters to its task, and
a filter of Spark evaluates an expression over them that calls Spark's own methods, such as
`TaskContext.get().taskMetrics().inputMetrics().incRecordsRead(rows)`. The filter keeps no row.

The filter is executed without Spark's optimizer, and its expression is made once, because a restart should not wait
for them. None of this is part of Spark's public interface. Where it is missing, a job runs without these
metrics.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any
from weakref import WeakKeyDictionary

from pyspark import RDD
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, BinaryType, LongType, StructField, StructType

from kit.hosts.spark.slot.counts import COUNTED

_METRICS: Mapping[str, tuple[Mapping[str, str], str]] = {
    "inputMetrics": ({"incRecordsRead": "rows_read", "incBytesRead": "bytes_read"}, "recordsRead"),
    "outputMetrics": (
        {"setRecordsWritten": "total rows_written", "setBytesWritten": "total bytes_written"},
        "recordsWritten",
    ),
    "shuffleReadMetrics": ({"incRecordsRead": "rows_received", "incRemoteBytesRead": "bytes_received"}, "recordsRead"),
    "shuffleWriteMetrics": ({"incRecordsWritten": "rows_sent", "incBytesWritten": "bytes_sent"}, "recordsWritten"),
}
"""For each group of metrics: the methods that set them, with the counters that they take, and one that returns a
number.
"""
ACCUMULATORS: Mapping[str, str] = {
    "snapshots": "snapshots written",
    "snapshot_bytes": "bytes of snapshots",
    "checkpoints": "completed checkpoints",
}
"""The names of the accumulators on the page of the stage, by counter. Only slot 0 counts completed checkpoints."""
_INTERPRETED = "spark.sql.codegen.factoryMode", "NO_CODEGEN"
"""The property of a Spark job with which its expressions are not compiled. Compiling the filter, which sees a row a
second, would take half a second of processor time.
"""
_PLACES = [*COUNTED, *(f"total {name}" for name in COUNTED)]
"""The order of the increases and totals of the counters in a row of a slot."""
_COLUMNS = StructType(
    [StructField("counts", ArrayType(LongType(), False), False), StructField("padding", BinaryType(), False)]
)


class TaskMetrics:
    """The metrics of one job's tasks on `spark`. Raises an exception of any kind if this Spark has no such metrics."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._made = _expressions_of(spark)
        self._condition = reduce(
            self._made.either,
            (self._made.adding(name, counter) for counter, name in ACCUMULATORS.items()),
            self._made.metrics,
        )
        """False, once it has called all methods."""

    def counted(self, slots: RDD[Any]) -> Any:
        """Return an RDD of Java without rows. Computing it runs `slots`, whose rows set the metrics (`rows_of`).

        It is computed in the thread that calls this: a property of that thread has Spark interpret the filter.
        Raises an exception of any kind if this Spark cannot do so.
        """
        self._spark.sparkContext.setLocalProperty(*_INTERPRETED)
        frame: Any = self._spark.createDataFrame(slots, _COLUMNS, verifySchema=False)
        return self._made.filter(self._condition, frame._jdf.queryExecution().sparkPlan()).execute()


class _Expressions:
    """Expressions of Spark's Catalyst, in a session. Each class of Java is looked up once, because that takes time."""

    def __init__(self, spark: SparkSession) -> None:
        context = spark.sparkContext
        jvm: Any = context._jvm
        catalyst = jvm.org.apache.spark.sql.catalyst.expressions
        types = jvm.org.apache.spark.sql.types
        self._context: Any = context._jsc.sc()
        self._literal, self._item, self._is_null = catalyst.Literal, catalyst.GetArrayItem, catalyst.IsNull
        self._invoke, self._bean = catalyst.objects.Invoke, catalyst.objects.InitializeJavaBean
        self._map, self._object_type = jvm.java.util.HashMap, types.ObjectType
        self._class, self._loader = jvm.java.lang.Class, jvm.java.lang.Thread.currentThread().getContextClassLoader()
        python = jvm.org.apache.spark.api.python.PythonUtils
        self._scala_map, self._nothing = python.toScalaMap, python.toSeq(jvm.java.util.ArrayList())
        self._long, self._int = types.DataType.fromDDL("long"), types.DataType.fromDDL("int")
        self._counts = catalyst.BoundReference(0, types.DataType.fromDDL("array<long>"), False)
        self.either, self.filter = catalyst.Or, jvm.org.apache.spark.sql.execution.FilterExec
        task = "org.apache.spark.TaskContext"
        none = getattr(getattr(jvm.scala, "None$"), "MODULE$")
        current = catalyst.objects.StaticInvoke(
            self._named(task), self._object(task), "get", self._nothing, self._nothing, True, True, False, none
        )
        self._metrics = self._call(current, "taskMetrics", self._object("org.apache.spark.executor.TaskMetrics"))
        self.metrics = reduce(self.either, (self._group(group, *how) for group, how in _METRICS.items()))
        """A false expression that sets the metrics of the running task."""
        self._accumulator = self._object("org.apache.spark.util.LongAccumulator")

    def adding(self, name: str, counter: str) -> Any:
        """Return a false expression that adds to a new accumulator."""
        accumulator = self._literal(self._context.longAccumulator(name), self._accumulator)
        return self._setting(accumulator, {"add": counter}, "sum")

    def _group(self, group: str, setters: Mapping[str, str], getter: str) -> Any:
        kind = self._object(f"org.apache.spark.executor.{group[0].upper()}{group[1:]}")
        return self._setting(self._call(self._metrics, group, kind), setters, getter)

    def _setting(self, target: Any, setters: Mapping[str, str], getter: str) -> Any:
        """Return a false expression that calls the setters of an object with counters."""
        values = self._map()
        for method, counter in setters.items():
            place = self._literal(_PLACES.index(counter), self._int)
            values[method] = self._item(self._counts, place, False)
        return self._is_null(self._call(self._bean(target, self._scala_map(values)), getter, self._long))

    def _call(self, target: Any, method: str, kind: Any) -> Any:
        """Return a call that Spark may neither leave out nor repeat."""
        return self._invoke(target, method, kind, self._nothing, self._nothing, True, True, False)

    def _object(self, name: str) -> Any:
        return self._object_type(self._named(name))

    def _named(self, name: str) -> Any:
        return self._class.forName(name, True, self._loader)


_made: WeakKeyDictionary[SparkSession, _Expressions] = WeakKeyDictionary()


def _expressions_of(spark: SparkSession) -> _Expressions:
    """Return the expressions of a session, made once."""
    if spark not in _made:
        _made[spark] = _Expressions(spark)
    return _made[spark]
