"""The counters of slots as the metrics of their Spark tasks, which Spark's UI and its REST API show.

Only Java code can set the metrics of a task, and a slot is Python. So each slot sends rows of counters to its task, and
Spark evaluates an expression over them that calls Spark's own methods, such as
`TaskContext.get().taskMetrics().inputMetrics().incRecordsRead(rows)`.

The expression is applied to an RDD, without a DataFrame: the first plan of a session takes two seconds of processor
time, and each restart would wait for another. `ExpressionEncoder.Deserializer` is the function of Spark that makes an
object of a row by expressions, and that can be sent to a task. None of this is part of Spark's public interface. Where
it is missing, a job runs without these metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from pyspark import RDD
from pyspark.sql import SparkSession

from kit.hosts.spark.slot.counts import COUNTED

_METRICS: Mapping[str, Mapping[str, str]] = {
    "inputMetrics": {"incRecordsRead": "rows_read", "incBytesRead": "bytes_read"},
    "outputMetrics": {"setRecordsWritten": "total rows_written", "setBytesWritten": "total bytes_written"},
}
"""For each group of metrics: the methods that set them, with the counters that they take.

Rows that slots exchange are not among Spark's metrics of a shuffle, because Spark does not shuffle them.
"""
ACCUMULATORS: Mapping[str, str] = {
    "snapshots": "snapshots written",
    "snapshot_bytes": "bytes of snapshots",
    "checkpoints": "completed checkpoints",
    "rows_received": "rows from other slots",
    "bytes_received": "bytes from other slots",
    "rows_sent": "rows to other slots",
    "bytes_sent": "bytes to other slots",
}
"""The names of the accumulators on the page of the stage, by counter. Only slot 0 counts completed checkpoints."""
_INTERPRETED = "spark.sql.codegen.factoryMode", "NO_CODEGEN"
"""The property of a Spark job with which its expressions are not compiled. Compiling this one, which sees a row a
second, would take half a second of processor time.
"""
_PLACES = [*COUNTED, *(f"total {name}" for name in COUNTED)]
"""The order of the increases and totals of the counters in a row of a slot."""


class TaskMetrics:
    """The metrics of one job's tasks on `spark`. Raises an exception of any kind if this Spark has no such metrics."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._made = _expressions_of(spark)
        adding = [self._made.adding(name, counter) for counter, name in ACCUMULATORS.items()]
        self._expressions = [*self._made.metrics, *adding]

    def counted(self, slots: RDD[Any]) -> Any:
        """Return an RDD of Java. Computing it runs `slots`, whose rows set the metrics (`rows_of`).

        It is computed in the thread that calls this: a property of that thread has Spark interpret the expressions.
        Raises an exception of any kind if this Spark cannot do so.
        """
        self._spark.sparkContext.setLocalProperty(*_INTERPRETED)
        return self._made.evaluated(self._expressions, slots._to_java_object_rdd())


class _Expressions:
    """Expressions of Spark's Catalyst, in a session. Each class of Java is looked up once, because that takes time."""

    def __init__(self, spark: SparkSession) -> None:
        context = spark.sparkContext
        jvm: Any = context._jvm
        sql = jvm.org.apache.spark.sql
        catalyst, types = sql.catalyst.expressions, sql.types.DataTypes
        self._context: Any = context._jsc.sc()
        self._literal, self._item, self._invoke = catalyst.Literal, catalyst.GetArrayItem, catalyst.objects.Invoke
        self._bean, self._object_type = catalyst.objects.InitializeJavaBean, sql.types.ObjectType
        self._list, self._map = jvm.java.util.ArrayList, jvm.java.util.HashMap
        self._class, self._loader = jvm.java.lang.Class, jvm.java.lang.Thread.currentThread().getContextClassLoader()
        self._scala = jvm.org.apache.spark.api.python.PythonUtils
        self._nothing = self._scala.toSeq(self._list())
        self._function = getattr(sql.catalyst.encoders, "ExpressionEncoder$Deserializer")
        self._int, counts = types.IntegerType, types.createArrayType(types.LongType, False)
        self._counts = catalyst.BoundReference(0, counts, False)
        columns = self._list()
        columns.append(types.createStructField("counts", counts, False))
        columns.append(types.createStructField("padding", types.BinaryType, False))
        self._row = sql.execution.python.EvaluatePython.makeFromJava(types.createStructType(columns))
        """The function that makes a row of Spark's of one that Python has sent."""
        task = "org.apache.spark.TaskContext"
        none = getattr(getattr(jvm.scala, "None$"), "MODULE$")
        current = catalyst.objects.StaticInvoke(
            self._named(task), self._object(task), "get", self._nothing, self._nothing, True, True, False, none
        )
        self._metrics = self._call(current, "taskMetrics", self._object("org.apache.spark.executor.TaskMetrics"))
        self.metrics = [self._group(group, setters) for group, setters in _METRICS.items()]
        """Expressions that set the metrics of the running task."""
        self._accumulator = self._object("org.apache.spark.util.LongAccumulator")

    def adding(self, name: str, counter: str) -> Any:
        """Return an expression that adds to a new accumulator."""
        accumulator = self._literal(self._context.longAccumulator(name), self._accumulator)
        return self._setting(accumulator, {"add": counter})

    def evaluated(self, expressions: Iterable[Any], rows: Any) -> Any:
        """Return an RDD of Java that evaluates `expressions` for each row of counters of `rows`, an RDD of objects."""
        every = self._list()
        every.extend(expressions)
        kind = rows.classTag()
        return rows.rdd().map(self._row, kind).map(self._function(self._scala.toSeq(every)), kind)

    def _group(self, group: str, setters: Mapping[str, str]) -> Any:
        kind = self._object(f"org.apache.spark.executor.{group[0].upper()}{group[1:]}")
        return self._setting(self._call(self._metrics, group, kind), setters)

    def _setting(self, target: Any, setters: Mapping[str, str]) -> Any:
        """Return an expression that calls the setters of an object with counters."""
        values = self._map()
        for method, counter in setters.items():
            place = self._literal(_PLACES.index(counter), self._int)
            values[method] = self._item(self._counts, place, False)
        return self._bean(target, self._scala.toScalaMap(values))

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
