"""A DataFrame that Spark has written once: the source that the workers read instead of it.

The positions in checkpoints are rows of these files, which no longer change, so a replay reads the same rows even if
computing the DataFrame again would give others.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kit.hosts.spark.frames.copied_rows import CopiedRows
from kit.stream.connectors.file_sources import ParquetSource
from kit.stream.operators.sources.source import Split

COPIES = "sources"
"""The directory of copies within the directory of a job."""


@dataclass(frozen=True, eq=False)
class StagedSource(CopiedRows):
    """The copy of a DataFrame below the job's checkpoint directory.

    `files` returns the files of the copy, and writes them if they do not exist. Only the driver has it.
    """

    operator_id: str
    files: Callable[[], list[str]] | None = field(repr=False)

    def splits_for(self, parallelism: int) -> list[Split]:
        """Return ranges of rows, at least one for each subtask if there are enough rows. Writes the copy if needed."""
        assert self.files is not None, "only the driver enumerates splits"
        paths = self.files()
        if not paths:
            return []
        splits = ParquetSource(paths).enumerate_splits()
        return splits if len(splits) >= parallelism else ParquetSource(paths, splits=parallelism).enumerate_splits()

    def enumerate_splits(self) -> list[Split]:
        """Return the ranges of rows for one subtask."""
        return self.splits_for(1)

    def check_split(self, split: Split) -> None:
        """Raise ValueError unless the file is a copy of this operator's DataFrame, made in any run."""
        path = str(split["path"])
        if not re.search(rf"/[0-9a-f]{{32}}/{COPIES}/{self.operator_id}/[0-9a-f]{{12}}/[^/]+\.parquet$", path):
            raise ValueError(
                f"the checkpoint resumes reading {path}, which is no copy of this source's DataFrame: restore a "
                "checkpoint of this job, whose source has the same uid and was a from_spark source too"
            )

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"files": None}

    def __repr__(self) -> str:
        return f"DataFrameSource({', '.join(self.columns.names)})"
