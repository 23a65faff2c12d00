"""PySpark's daemon with the kit imported beforehand.

Spark forks its Python workers from a daemon. One that has imported the kit, and what it depends on, gives workers that
are ready at once; else each new worker spends seconds on imports, after a failure of all times. `create_session` names
this module as `spark.python.daemon.module`.
"""

from __future__ import annotations

import gc

import pyspark.worker  # noqa: F401
from pyspark import daemon

import kit.spark.gang  # noqa: F401

if __name__ == "__main__":
    gc.freeze()  # the workers share what was imported; collections shall not touch it, and so have it copied
    daemon.manager()
