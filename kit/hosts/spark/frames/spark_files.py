"""Files that Spark writes and the kit reads: their paths, and their way to the disk."""

from __future__ import annotations

from kit.filesystems.places import open_path


def spark_path(path: str) -> str:
    """Return a path as Spark's file systems take it: local paths are files of this machine, S3 is `s3a`."""
    if "://" not in path:
        return f"file://{path}"
    return f"s3a://{path.removeprefix('s3://')}" if path.startswith("s3://") else path


def finish_files(directory: str, *, syncs: bool) -> list[str]:
    """Return the names of the Parquet files with rows in a directory that Spark wrote, in order.

    With `syncs`, wait until they are on the disk: Spark does not.
    """
    system, inner = open_path(directory)
    found = [info for info in system.entries(inner, missing_ok=False) if info.base_name.endswith(".parquet")]
    if syncs:
        for path in [*(info.path for info in found), inner]:
            system.sync(path)
    return sorted(info.base_name for info in found)
