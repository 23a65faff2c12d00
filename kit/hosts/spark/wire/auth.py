"""Mutual authentication of two endpoints that share a job's secret, before anything else is read.

Theory of operation. Four messages of fixed size, after which both ends know that the other holds the secret:

    dials -> listens   hello:     purpose, slot, deployment, nonce
    listens -> dials   challenge: purpose, slot, deployment, nonce; HMAC("listens", hello, challenge)
    dials -> listens   proof:     HMAC("dials", hello, challenge)
    listens -> dials   verdict:   welcome, fenced, taken or unknown; HMAC("verdict", verdict, hello, challenge)

Every HMAC (SHA-256) covers

- both nonces, so a recorded handshake cannot be replayed;
- a role, so an endpoint's own proof cannot be reflected to it;
- purpose, slot and deployment of both endpoints, so a proof for one connection is useless for another.

The listener proves itself first, so the dialling end detects a wrong secret by itself and can report it. This lets a
stranger collect HMACs of its own nonces, which is why a secret must be long and random (`new_secret`).

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
"""The number of the driver where slots have their slot number."""

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
    """The other end holds the secret but rejects this one: of another deployment, a slot that is taken or unknown."""


class Purpose(IntEnum):
    """The purpose of a connection."""

    CONTROL = 1
    DATA = 2


class Verdict(IntEnum):
    """The listener's answer to a peer that has proved itself."""

    WELCOME = 0
    FENCED = 1
    """The ends belong to different deployments."""
    TAKEN = 2
    """Another process has joined as this slot in this deployment."""
    UNKNOWN = 3
    """The deployment has no slot of this number."""


@dataclass(frozen=True, slots=True)
class Party:
    """One end of a connection: its slot number (or DRIVER) and the number of its deployment.

    The slots that a gang starts together are a deployment, and no two have the same number.
    """

    slot: int
    deployment: int

    def __str__(self) -> str:
        return f"{'driver' if self.slot == DRIVER else f'slot {self.slot}'} (deployment {self.deployment})"


def new_secret() -> bytes:
    """Return a secret for one job: 32 random bytes."""
    return secrets.token_bytes(SECRET_BYTES)


def check_secret(secret: bytes) -> bytes:
    """Return the secret. Raises ValueError if it is short enough to be guessed."""
    if len(secret) < SECRET_BYTES:
        raise ValueError(f"a secret of {len(secret)} bytes, expected {SECRET_BYTES} or more: use new_secret()")
    return secret


def authenticate(
    stream: Stream, secret: bytes, purpose: Purpose, me: Party, expected_slot: int, *, deadline: float
) -> Party:
    """Perform the dialling end's half of the handshake; return the listening party.

    Raises AuthenticationError if the listener has another secret, or is not the slot that was dialled; FencedError if
    it is of another deployment, or the slot is taken or unknown; TimeoutError if no answer arrives before `deadline`.
    """
    hello = _PARTY.pack(_MAGIC, _VERSION, purpose, me.slot, me.deployment, secrets.token_bytes(_NONCE_BYTES))
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
            raise AuthenticationError(
                f"{stream.endpoint} is {listener}, expected {Party(expected_slot, me.deployment)}"
            )
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
    """Perform the listening end's half of the handshake; return the dialling party.

    Raises AuthenticationError for a stranger, with the reason, and FencedError if `judge` rejects a peer that holds the
    secret. Both are for the listener's log: the dialling end receives only a verdict, once it has proved itself. Until
    then only messages of fixed size are read, and no answer is sent in clear text.
    """
    hello = stream.receive_exactly(_PARTY.size, deadline)
    dialler = _parse_party(hello, purpose)
    if dialler is None:
        raise AuthenticationError(_no_hello(hello, purpose))
    challenge = _PARTY.pack(_MAGIC, _VERSION, purpose, me.slot, me.deployment, secrets.token_bytes(_NONCE_BYTES))
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
        raise FencedError(f"{dialler} {_REJECTED[verdict]}: this is {me}")
    return dialler


_REJECTED = {
    Verdict.FENCED: "comes too late or too early",
    Verdict.TAKEN: "comes twice",
    Verdict.UNKNOWN: "is no slot of this deployment",
}


def _tag(secret: bytes, role: bytes, *messages: bytes) -> bytes:
    """Return the HMAC of the transcript; the separator does not rely on the fixed lengths of roles and messages."""
    return hmac.digest(secret, b"checkpoint-kit " + role + b"\0" + b"".join(messages), hashlib.sha256)


def _parse_party(message: bytes, expected: Purpose) -> Party | None:
    magic, version, purpose, slot, deployment, _ = _PARTY.unpack(message)
    if (magic, version, purpose) != (_MAGIC, _VERSION, expected):
        return None
    return Party(slot, deployment)


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
    if verdict == Verdict.UNKNOWN:
        return FencedError(f"{endpoint} refused {me}: {listener} has no slot of that number")
    return FencedError(f"{endpoint} refused {me}: it is {listener}; leave, the job continues in another deployment")
