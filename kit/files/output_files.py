"""The files of sinks, which are staged and published in two phases.

`stage` writes a file under a hidden directory while a checkpoint is being taken, and `commit` renames it to its visible
path once the checkpoint is complete. Committing again has no further effect: a file that is already published is left
alone. An object store has no rename: there a file is copied to its path, where it appears in one step, and then
deleted. If a process dies between the two, the next one finds both, sees that they are the same, and deletes the staged
one.

Readers may take published files away. A record says what was published (`kit.files.publication_records`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from posixpath import dirname

import pyarrow as pa

from kit.core.protocol.snapshots import Effect
from kit.files.discarded_output import mark_discarded
from kit.files.publication_records import (
    delete_staged,
    is_record,
    lone_records,
    recorded_name,
    was_published,
    write_record,
)
from kit.filesystems.file_system import FileSystem, is_directory, reason
from kit.filesystems.places import open_path
from kit.stream.connectors.output_directory import CommitError
from kit.stream.connectors.part_names import STAGING, PublishedName, StagedName, staging_directory
from kit.stream.connectors.partitions import is_partition


def stage(effect: Effect, *, durable: bool = True) -> None:
    """Write the effect's table to its staged file, completely or not at all. Raises CommitError naming the file."""
    system, staged = open_path(effect.staged)
    unfinished = staged if system.appears_whole else f"{staged}.unfinished"
    try:
        with system.create_in_directory(unfinished, durable=durable) as stream:
            _write_parquet(effect.table, stream)
        if unfinished != staged:
            system.rename(unfinished, staged, durable=durable)
    except OSError as error:
        raise cannot_be_written(output_directory_of(effect.staged), error) from error


def cannot_be_written(directory: str, error: OSError) -> CommitError:
    """Return the error for an output directory in which a file cannot be made."""
    return CommitError(f"output directory {directory} cannot be written: {reason(error, 'make it writable')}")


def output_directory_of(staged: str) -> str:
    """Return the output directory of a file in its staging directory."""
    return staged.partition(f"/{STAGING}/")[0]


def _write_parquet(table: pa.Table | None, stream: pa.NativeFile) -> None:
    import pyarrow.parquet as pq

    pq.write_table(table, stream)


def commit(effects: Iterable[Effect], *, durable: bool = True, recorded: bool = True) -> None:
    """Publish staged files by renaming them; what was published before is left alone, also if it was taken away since
    and is `recorded`.

    Raises CommitError when a file is not staged and was never published, or was published with other content.
    """
    for effect in effects:
        _commit(effect, durable=durable, recorded=recorded)


def _commit(effect: Effect, *, durable: bool, recorded: bool) -> None:
    system, staged = open_path(effect.staged)
    _, final = open_path(effect.final)
    _check_no_detour(system, staged, final)
    is_staged, is_final = system.is_file(staged), system.is_file(final)
    try:
        was_taken_away = recorded and not is_final and was_published(system, staged, final)
        if is_final:
            if durable:  # the process that renamed it may have ended before the name was on the disk
                system.sync(dirname(final))
            if is_staged:
                _check_same(system, effect, staged, final)
                system.delete(staged)
        elif was_taken_away:
            if is_staged:
                delete_staged(system, staged)
        elif is_staged:
            system.make_directory(dirname(final), durable=durable)
            if recorded:
                with suppress(OSError):  # a full disk keeps no staged row from being published: a rename needs no room
                    write_record(system, staged, final, durable=durable)
            system.rename(staged, final, durable=durable)
        else:
            raise CommitError(
                f"{effect.final} cannot be published: it is not there, neither is {effect.staged}, and no record "
                "says that it was published; its rows are lost unless you put the staged file back, or restore an "
                "older checkpoint"
            )
    except CommitError:
        raise
    except OSError as error:
        raise CommitError(f"{effect.final} cannot be published: {reason(error)}") from error


def _check_no_detour(system: FileSystem, staged: str, final: str) -> None:
    """Raise CommitError if the directory of a file is a link to somewhere outside the output directory."""
    output = system.real_path(output_directory_of(staged))
    for directory in (dirname(staged), dirname(final)):
        found = system.real_path(directory)
        if not f"{found}/".startswith(f"{output.rstrip('/')}/"):
            raise CommitError(f"{staged} is not published: {directory} is {found}, outside {output}; remove the link")


def _check_same(system: FileSystem, effect: Effect, staged: str, final: str) -> None:
    if system.info(staged).size == system.info(final).size and system.read_range(staged) == system.read_range(final):
        return
    raise published_with_other_rows(effect)


def published_with_other_rows(effect: Effect) -> CommitError:
    """Return the error for a name under which other rows were published."""
    return CommitError(
        f"{effect.final} was published already with other rows: an earlier run of a job with the same id wrote to "
        f"{output_directory_of(effect.staged)}; empty that directory, or write to another"
    )


def drop(effects: Iterable[Effect]) -> None:
    """Delete staged files that will never be published; missing ones are ignored."""
    for effect in effects:
        system, staged = open_path(effect.staged)
        delete_staged(system, staged)


def staged_files(path: str, writer: str) -> list[str]:
    """Return the names of the files that a run has staged for `path`, finished or not, and of its records."""
    system, inner = open_path(staging_directory(path, writer))
    return sorted(info.base_name for info in system.entries(inner))


def writers(path: str) -> list[str]:
    """Return the runs that have staged files or records for `path`."""
    system, inner = open_path(f"{path.rstrip('/')}/{STAGING}")
    return sorted(info.base_name for info in system.entries(inner) if is_directory(info))


def all_staged_files(path: str) -> dict[str, list[str]]:
    """Return the names of the files that each run has staged for `path`, by its writer's name."""
    return {writer: staged_files(path, writer) for writer in writers(path)}


def records_of_published(path: str, writer: str) -> dict[str, str]:
    """Return the names under which a run published what is no longer staged, by the name of the record."""
    system, directory = open_path(staging_directory(path, writer))
    names = lone_records(info.base_name for info in system.entries(directory))
    return {name: recorded_name(system, f"{directory}/{name}") for name in names}


def remove_staged(path: str, writer: str, names: Iterable[str]) -> None:
    """Delete staged files by name, and the directory after the last; missing ones are ignored."""
    system, inner = open_path(staging_directory(path, writer))
    for name in sorted(names, key=lambda name: not is_record(name)):  # see `kit.files.publication_records`
        if system.is_file(f"{inner}/{name}"):
            system.delete(f"{inner}/{name}")
    for directory in (inner, dirname(inner)):
        system.delete_if_empty(directory)


def published_files(path: str) -> list[str]:
    """Return the Parquet files that a reader of the directory sees, in order: their paths below it.

    Of its subdirectories only partitions are looked into, such as `year=2013`.
    """
    system, inner = open_path(path)
    return sorted(_published_in(system, inner.rstrip("/"), ""))


def _published_in(system: FileSystem, path: str, partition: str) -> Iterator[str]:
    for info in system.entries(f"{path}/{partition}"):
        name = f"{partition}{info.base_name}"
        if info.is_file and name.endswith(".parquet") and not info.base_name.startswith((".", "_")):
            yield name
        elif is_directory(info) and is_partition(f"{info.base_name}/"):
            yield from _published_in(system, path, f"{name}/")


def delete_published(path: str, names: Iterable[str], *, durable: bool = True) -> None:
    """Delete these files, and partitions in which none is left; missing ones are ignored.

    First their output is marked as discarded (`kit.files.discarded_output`). Then their records go, since a
    record that outlasts its file says that readers have taken the file away.
    """
    parts = {name: PublishedName.parse(name) for name in names}
    known = set(filter(None, parts.values()))
    mark_discarded(path, ((part.writer, part.checkpoint_id) for part in known), durable=durable)
    for writer in {part.writer for part in known}:
        records = {name: StagedName.parse(name) for name in staged_files(path, writer) if is_record(name)}
        remove_staged(path, writer, [name for name, of in records.items() if of and of.published_by(writer) in known])
    system, inner = open_path(path)
    for name in parts:
        if system.is_file(f"{inner}/{name}"):
            system.delete(f"{inner}/{name}")
    for directory in {dirname(name) for name in parts}:
        if durable:
            with suppress(FileNotFoundError):
                system.sync(f"{inner}/{directory}")
        while directory:
            system.delete_if_empty(f"{inner}/{directory}")
            directory = dirname(directory)
