"""Lines of text: each is read once, however the bytes are split and from any position; other bytes are an error."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kit import TextSource
from kit.stream.connectors import text_files
from kit.stream.connectors.file_versions import version_of
from kit.stream.operators.spec import SchemaError
from tests.properties import examples

settings_ = settings(
    max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
LINES = st.lists(
    st.text(st.sampled_from("aé\r 語\ufeff"), max_size=6).map(lambda text: text.removesuffix("\r")), max_size=12
)


def rows(source: TextSource, max_rows: int, seek: bool = False) -> list[dict[str, object]]:
    """All rows, by one reader, or by a new one for each read."""
    reader, found = source.open_reader(), []
    for split in source.enumerate_splits():
        position, finished = 0, False
        while not finished:
            result = source.read_split(split, position, max_rows) if seek else reader.read(split, position, max_rows)
            found += result.batch.to_pylist() if result.batch else []
            position, finished = result.position, result.finished
    return found


def text(lines: list[str], ends: list[str], last_ends: bool) -> bytes:
    written = "".join(line + ends[number % len(ends)] for number, line in enumerate(lines))
    return (written if last_ends else written.removesuffix("\n").removesuffix("\r")).encode()


@settings_
@given(
    lines=LINES,
    ends=st.lists(st.sampled_from(["\n", "\r\n"]), min_size=1, max_size=3),
    last_ends=st.booleans(),
    splits=st.integers(1, 9),
    max_rows=st.integers(1, 5),
    block=st.integers(1, 9),
    seek=st.booleans(),
)
@example(lines=["\ufeff"], ends=["\n"], last_ends=False, splits=1, max_rows=1, block=1, seek=False)
def test_each_line_comes_once_however_the_bytes_are_cut(
    tmp_path, lines, ends, last_ends, splits, max_rows, block, seek
) -> None:
    path = tmp_path / "poem.txt"
    data = text(lines, ends, last_ends)
    path.write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "_BLOCK_BYTES", block)
        source = TextSource(path, splits=splits, columns=("line", "offset", "path"))
        found = rows(source, max_rows, seek)
    expected = data.removeprefix(b"\xef\xbb\xbf").decode().split("\n")
    expected = [line.removesuffix("\r") for line in expected[:-1]] + ([expected[-1]] if expected[-1] else [])
    assert [row["line"] for row in found] == (expected if data else [])
    starts = [0, *(at + 1 for at, byte in enumerate(data) if byte == ord("\n") and at + 1 < len(data))]
    assert [row["offset"] for row in found] == (starts if expected else [])
    assert {row["path"] for row in found} <= {str(path)}


@settings_
@given(lines=LINES, splits=st.integers(1, 6), data=st.data())
def test_the_position_after_any_line_leads_to_the_next(tmp_path, lines, splits, data) -> None:
    path = tmp_path / "poem.txt"
    path.write_bytes(text(lines, ["\n"], True))
    source = TextSource(path, splits=splits)
    for split in source.enumerate_splits():
        whole = source.read_split(split, 0, 100)
        texts = whole.batch["line"].to_pylist() if whole.batch else []
        if texts:
            count = data.draw(st.integers(1, len(texts)))
            first = source.read_split(split, 0, count)
            rest = source.read_split(split, first.position, 100)
            assert first.finished == (count == len(texts))
            assert first.batch["line"].to_pylist() + (rest.batch["line"].to_pylist() if rest.batch else []) == texts
            assert rest.finished


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".bz2", bz2.compress)])
def test_a_compressed_file_is_one_split(tmp_path, suffix, compress) -> None:
    lines = [f"line {number}" for number in range(5_000)]
    path = tmp_path / f"poem.txt{suffix}"
    path.write_bytes(compress("\n".join(lines).encode()))
    source = TextSource(path)
    (split,) = source.splits_for(4)
    assert split == {"id": str(path), "path": str(path), "start": 0, "version": version_of(str(path))}
    assert [row["line"] for row in rows(source, 999)] == lines
    assert [row["line"] for row in rows(source, 999, seek=True)] == lines


def test_files_directories_and_patterns(tmp_path: Path) -> None:
    for name in ("b.txt", "a.md", "deep/c.txt", ".hidden", "_SUCCESS", ".git/config"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{name}\n")
    (tmp_path / "empty.txt").write_bytes(b"")

    def lines(*path: str) -> list[object]:
        given = [tmp_path / one for one in path]
        return [row["line"] for row in rows(TextSource(given[0] if len(given) == 1 else given), 9)]

    assert lines(".") == ["a.md", "b.txt", "deep/c.txt"]
    assert lines("*.txt") == ["b.txt"]
    assert lines("**/*.txt") == ["b.txt", "deep/c.txt"]
    assert lines("d*") == ["deep/c.txt"]
    assert lines("?.[mt]*") == ["a.md", "b.txt"]
    assert lines("b.txt", "a.md") == ["b.txt", "a.md"]
    assert lines("empty.txt") == []


def test_each_subtask_has_a_range_unless_it_is_said_otherwise(tmp_path) -> None:
    (tmp_path / "poem.txt").write_bytes(b"x" * 99 + b"\n")
    source = TextSource(tmp_path / "poem.txt")
    assert [(split["start"], split["end"]) for split in source.splits_for(3)] == [(0, 33), (33, 66), (66, 100)]
    assert len(TextSource(tmp_path / "poem.txt", splits=1).splits_for(3)) == 1


def test_what_is_wrong_is_said_when_the_source_is_made(tmp_path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no file or directory .*/gone\.txt"):
        TextSource(tmp_path / "gone.txt")
    with pytest.raises(FileNotFoundError, match=r"nothing matches .*/\*\.txt: there is no such file below "):
        TextSource(tmp_path / "*.txt")
    with pytest.raises(FileNotFoundError, match="no files: "):
        TextSource(tmp_path)
    (tmp_path / "poem.txt").write_text("x")
    with pytest.raises(
        SchemaError, match="TextSource: there is no column 'word'; the columns are 'line', 'path', 'off"
    ):
        TextSource(tmp_path / "poem.txt", columns=("word",))
    with pytest.raises(ValueError, match="splits = 0"):
        TextSource(tmp_path / "poem.txt", splits=0)


@pytest.mark.parametrize("splits", [1, 3])
def test_what_is_no_utf_8_is_named_with_its_byte(tmp_path, splits) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes(b"first\nsecond\ncaf\xe9 au lait\n")
    source = TextSource(path, splits=splits)
    with pytest.raises(ValueError, match=r"latin\.txt, byte 16: 0xe9 is not UTF-8; the text before it is '.*caf'"):
        rows(source, 10)
