"""Errors about state. Each message says what was found, what was expected and what to do."""

from __future__ import annotations

from functools import partial


class StateError(Exception):
    """Any error of keyed or operator state, or of the storage below it."""


class StateDescriptorError(StateError):
    """A descriptor that is invalid, or contradicts the one with which its state was registered or stored."""


class StateTypeError(StateError, TypeError):
    """A key, namespace or value that does not fit the Arrow type of its state."""


class StateOverflowError(StateError, OverflowError):
    """A sum that its Arrow type cannot hold."""


class StateRestoreError(StateError):
    """State that cannot be read back."""


class StorageError(StateError, OSError):
    """The checkpoint storage cannot be read or written."""


class StateLostError(StorageError):
    """A file of a checkpoint that is missing, or shorter than it was written: no retry will read it."""


class SavepointNotFoundError(StorageError, FileNotFoundError):
    """A path without a checkpoint or savepoint."""


class CheckpointError(StateError, ValueError):
    """A checkpoint, or a file of it, that cannot be opened or decoded."""

    def about(self, what: str) -> CheckpointError:
        """Return the same error with what it is about in front."""
        return CheckpointError(f"{what}: {self}")

    def moved(self, by: int) -> CheckpointError:
        """Return this error, which has no place (`DamagedError` has one)."""
        return self

    def inside(self, what: str) -> CheckpointError:
        """Return this error, which has no place."""
        return self


class DamagedError(CheckpointError):
    """Bytes of a checkpoint that do not have their layout: what they are, their file and place, and what to do.

    Code that decodes bytes knows their place in its own part of them only. Its callers add what they know: `moved` by
    the start of the part, `inside` what was compressed or copied, and `of_file`.
    """

    DAMAGED = "the file is damaged, or is not what it is taken for; fetch it again or open another checkpoint"
    CUT_OFF = "the file is cut off or damaged; fetch it again or open another checkpoint"

    def __init__(
        self, problem: str, at: int = 0, advice: str = DAMAGED, *, of: tuple[str, ...] = (), file: str = ""
    ) -> None:
        """`problem` says what was found and what was expected; `at` is a byte of the part, later of the file."""
        place = f"{file!r}, byte {at}" if file else f"byte {at}"
        super().__init__(f"{': '.join((*of, place, problem))}: {advice}")
        self.problem, self.at, self.advice, self.of, self.file = problem, at, advice, of, file

    def __reduce__(self) -> tuple[object, ...]:
        """Copy the error with its parts, as processes that exchange it do."""
        return partial(DamagedError, of=self.of, file=self.file), (self.problem, self.at, self.advice)

    def about(self, what: str) -> DamagedError:
        """Return the same error with what the bytes are in front."""
        return DamagedError(self.problem, self.at, self.advice, of=(what, *self.of), file=self.file)

    def moved(self, by: int) -> DamagedError:
        """Return the error with its place in bytes of which this part begins at `by`."""
        return DamagedError(self.problem, self.at + by, self.advice, of=self.of)

    def inside(self, what: str) -> DamagedError:
        """Return the error with the place of `what`, whose own bytes are not those of the file: byte 0."""
        return DamagedError(f"byte {self.at} of {what}: {self.problem}", 0, self.advice, of=self.of)

    def of_file(self, name: str, start: int = 0) -> DamagedError:
        """Return the error with the name of the file, in which the bytes begin at `start`. The first file stays."""
        if self.file:
            return self
        return DamagedError(self.problem, self.at + start, self.advice, of=self.of, file=name)
