"""Connectors of Spark for the soak. They are jars, and the project does not install them.

    KIT_SPARK_JARS   a directory of jars: Spark's connector for Kafka and what it depends on, or Delta Lake, or both
    KIT_KAFKA        the address of a broker for tests, such as 127.0.0.1:9092; it creates topics by itself

Tests that need them are collected only if these variables are set.
"""

from __future__ import annotations

import os
from pathlib import Path

KAFKA = os.environ.get("KIT_KAFKA", "")
_JARS = sorted(Path(os.environ["KIT_SPARK_JARS"]).absolute().glob("*.jar")) if "KIT_SPARK_JARS" in os.environ else []
HAS_DELTA = any(jar.name.startswith("delta-spark") for jar in _JARS)


def with_connectors() -> dict[str, str]:
    """Return the settings of a session that has the connectors. Without any, there are no settings."""
    settings = {"spark.jars": ",".join(map(str, _JARS))} if _JARS else {}
    if HAS_DELTA:
        settings["spark.sql.extensions"] = "io.delta.sql.DeltaSparkSessionExtension"
        settings["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    return settings
