"""PySpark's daemon with the kit imported beforehand.

Spark forks its Python workers from a daemon. One that has imported the kit, and what it depends on, gives workers that
are ready at once; else each new worker spends seconds on imports, after a failure of all times. `create_session` names
this module as `spark.python.daemon.module`.

A new worker's first act is to have Python's finders look again at what they know (`setup_spark_files`). Those of
`pyspark.zip`, one for each package in it, then read the archive's directory anew, a third of a second in all. They are
forgotten here: whoever needs one again makes it, from a directory that is read once.
"""

from __future__ import annotations

import gc
import sys
import zipimport

import pandas  # noqa: F401  (as pyarrow.acero and kit.stream.api: else each worker imports it at its first use)
import pyarrow.acero  # noqa: F401
import pyspark.core.files
import pyspark.worker  # noqa: F401
from pyspark import daemon

import kit.hosts.spark.driver.gang
import kit.stream.api  # noqa: F401


def forget_archives() -> None:
    """Let no finder of an archive be kept for the workers."""
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimport.zipimporter):
            del sys.path_importer_cache[path]


if __name__ == "__main__":
    forget_archives()
    gc.freeze()  # the workers share what was imported; collections shall not touch it, and so have it copied
    daemon.manager()
