"""PySpark's daemon with the kit already imported.

Spark forks its Python workers from a daemon. If the daemon has imported the kit and its dependencies, new workers are
ready at once. Otherwise each spends seconds on imports, which matters most after a failure. `create_session` names this
module as `spark.python.daemon.module`.

A new worker first invalidates the caches of Python's finders (`setup_spark_files`). The finders of `pyspark.zip`, one
for each package in it, then read the archive's directory again, which takes a third of a second in all. So they are
removed here: a finder that is needed again is created from a directory that is read once.
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
    """Remove the finders of archives, so that workers do not inherit them."""
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimport.zipimporter):
            del sys.path_importer_cache[path]


if __name__ == "__main__":
    forget_archives()
    gc.freeze()  # workers share the imported objects; a collection would touch and so copy them
    daemon.manager()
