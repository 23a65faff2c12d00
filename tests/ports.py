"""Ports for servers that the tests start."""

from __future__ import annotations

import socket


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port on which nobody listens now."""
    with socket.socket() as free:
        free.bind((host, 0))
        port: int = free.getsockname()[1]
    return port
