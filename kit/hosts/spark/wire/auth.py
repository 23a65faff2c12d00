"""Mutual authentication of two ends that share a job's secret, before anything else is read.

Theory of operation. Four messages of fixed size, after which both ends know that the other holds the secret:

    dials -> listens   hello:     purpose, slot, epoch, nonce
    listens -> dials   challenge: purpose, slot, epoch, nonce; HMAC("listens", hello, challenge)
    dials -> listens   proof:     HMAC("dials", hello, challenge)
    listens -> dials   verdict:   welcome, fenced or taken;     HMAC("verdict", verdict, hello, challenge)

Every HMAC (SHA-256) covers both nonces, so a recorded handshake is worth nothing; a role, so an end's own proof
cannot be reflected to it; and purpose, slot and epoch of both ends, so a proof made for one place is useless at
another. The listener proves itself first: the end that dials learns of a wrong secret by itself and can say so. That
lets a stranger collect HMACs of his own nonces, which is why a secret must be long and random (`new_secret`).

The handshake authenticates the ends, not what follows. Where others can alter packets between the hosts, use TLS.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from kit.hosts.spark.wire.stream import Endpoint, Stream

SECRET_BYTES = 32
DRIVER = -1
"""The driver's place where others have a slot number."""

_MAGIC = b"CKIT"
_VERSION = 1
_NONCE_BYTES = 32
_TAG_BYTES = 32
_PARTY = struct.Struct(f"!4sBBxxiQ{_NONCE_BYTES}s")
_VERDICT = struct.Struct(f"!B{_TAG_BYTES}s")


class AuthenticationError(ConnectionError):
    """The other end does not hold the job's secret, or is not who it should be."""


class CutOffError(AuthenticationError):
    """The other end closed the connection in the middle of the handshake."""


class FencedError(ConnectionError):
    """The other end holds the secret but belongs to another epoch, or the slot is already taken."""


class Purpose(IntEnum):
    """What a connection is for."""

    CONTROL = 1
    DATA = 2


class Verdict(IntEnum):
    """What the listener says to a peer that has proved itself."""

    WELCOME = 0
    FENCED = 1
    """The ends belong to different epochs."""
    TAKEN = 2
    """Somebody else is this slot in this epoch."""


@dataclass(frozen=True, slots=True)
class Party:
    """One end of a connection: which slot it is (or DRIVER), and in which epoch."""

    slot: int
    epoch: int

    def __str__(self) -> str:
        return f"{'driver' if self.slot == DRIVER else f'slot {self.slot}'} (epoch {self.epoch})"


def new_secret() -> bytes:
    """A secret for one job: 32 random bytes."""
    return secrets.token_bytes(SECRET_BYTES)


def check_secret(secret: bytes) -> bytes:
    """The secret itself; ValueError when it is too short to withstand guessing."""
    if len(secret) < SECRET_BYTES:
        raise ValueError(f"a secret of {len(secret)} bytes, expected {SECRET_BYTES} or more: use new_secret()")
    return secret


def authenticate(
    stream: Stream, secret: bytes, purpose: Purpose, me: Party, expected_slot: int, *, deadline: float
) -> Party:
    """The dialling end's half; returns who listens.

    AuthenticationError: the listener has another secret, or is another slot than the one dialled.
    FencedError: it is of another epoch, or the slot is taken. TimeoutError: no answer before `deadline`.
    """
    hello = _PARTY.pack(_MAGIC, _VERSION, purpose, me.slot, me.epoch, secrets.token_bytes(_NONCE_BYTES))
    try:
        stream.send_buffers([hello])
        challenge = stream.receive_exactly(_PARTY.size, deadline)
        tag = stream.receive_exactly(_TAG_BYTES, deadline)
        if not hmac.compare_digest(tag, _tag(secret, b"listens", hello, challenge)):
            raise AuthenticationError(
                f"{stream.endpoint} does not hold this job's secret: another job or program listens there"
            )
        listener = _parse_party(challenge, purpose)
        if listener is None or listener.slot != expected_slot:
            raise AuthenticationError(f"{stream.endpoint} is {listener}, expected {Party(expected_slot, me.epoch)}")
        stream.send_buffers([_tag(secret, b"dials", hello, challenge)])
        verdict, tag = _VERDICT.unpack(stream.receive_exactly(_VERDICT.size, deadline))
    except (EOFError, ConnectionResetError, BrokenPipeError) as error:
        raise CutOffError(
            f"{stream.endpoint} closed the connection during authentication: it holds another secret, "
            f"is closing, or is no endpoint of this job ({error})"
        ) from None
    except TimeoutError:
        raise TimeoutError(f"{stream.endpoint} did not authenticate in time") from None
    if not hmac.compare_digest(tag, _tag(secret, b"verdict", bytes([verdict]), hello, challenge)):
        raise AuthenticationError(f"{stream.endpoint} sent a forged verdict")
    if verdict != Verdict.WELCOME:
        raise _refusal(stream.endpoint, verdict, me, listener)
    return listener


def admit(
    stream: Stream, secret: bytes, purpose: Purpose, me: Party, judge: Callable[[Party], Verdict], *, deadline: float
) -> Party:
    """The listening end's half; returns who dialled.

    AuthenticationError: a stranger, with what gave him away. FencedError: `judge` did not welcome a peer that holds the
    secret. Both are for the listener's log: the dialling end is told nothing but a verdict, and that only once it has
    proved itself. Until then only bytes of fixed size are read, and none is answered in clear text.
    """
    hello = stream.receive_exactly(_PARTY.size, deadline)
    dialler = _parse_party(hello, purpose)
    if dialler is None:
        raise AuthenticationError(_no_hello(hello, purpose))
    challenge = _PARTY.pack(_MAGIC, _VERSION, purpose, me.slot, me.epoch, secrets.token_bytes(_NONCE_BYTES))
    stream.send_buffers([challenge, _tag(secret, b"listens", hello, challenge)])
    try:
        proof = stream.receive_exactly(_TAG_BYTES, deadline)
    except EOFError as error:
        raise AuthenticationError(f"claims to be {dialler} and proves nothing: {error}") from None
    if not hmac.compare_digest(proof, _tag(secret, b"dials", hello, challenge)):
        raise AuthenticationError(
            f"claims to be {dialler} and does not prove it: it has another secret, or repeats what it has overheard"
        )
    verdict = judge(dialler)
    stream.send_buffers([_VERDICT.pack(verdict, _tag(secret, b"verdict", bytes([verdict]), hello, challenge))])
    if verdict is not Verdict.WELCOME:
        raise FencedError(f"{dialler} comes too late, or twice: this is {me}")
    return dialler


def _tag(secret: bytes, role: bytes, *messages: bytes) -> bytes:
    """HMAC of the transcript. Roles and messages have fixed lengths, but the separator does not rely on it."""
    return hmac.digest(secret, b"checkpoint-kit " + role + b"\0" + b"".join(messages), hashlib.sha256)


def _parse_party(message: bytes, expected: Purpose) -> Party | None:
    magic, version, purpose, slot, epoch, _ = _PARTY.unpack(message)
    if (magic, version, purpose) != (_MAGIC, _VERSION, expected):
        return None
    return Party(slot, epoch)


def _no_hello(message: bytes, expected: Purpose) -> str:
    magic, version, purpose, *_ = _PARTY.unpack(message)
    if magic != _MAGIC:
        return f"begins with {message[:12]!r}, which is no hello of this kit"
    if version != _VERSION:
        return f"speaks version {version} of the handshake, expected {_VERSION}: it runs another version of the kit"
    return f"comes for purpose {purpose}, expected {expected.value} ({expected.name.lower()})"


def _refusal(endpoint: Endpoint, verdict: int, me: Party, listener: Party) -> FencedError:
    if verdict == Verdict.TAKEN:
        return FencedError(f"{endpoint} refused {me}: that slot is already connected to {listener}")
    return FencedError(f"{endpoint} refused {me}: it is {listener}; leave, the job goes on in another epoch")
