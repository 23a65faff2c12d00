"""A PostgreSQL of the tests' own: Debian's package, its data in a temporary directory, on a free port of loopback."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.ports import free_port

PROGRAMS = Path("/usr/lib/postgresql")
DRIVER = Path("/usr/share/java/postgresql.jar")
USER = "postgres"
"""Who runs the server, and who asks it: Debian's user, since the server refuses to run as root."""


class PostgreSql:
    """A server that runs within the `with` block."""

    def __init__(self) -> None:
        found = sorted(PROGRAMS.glob("*/bin/pg_ctl"))
        if not found or not DRIVER.exists():
            raise RuntimeError("the tests need PostgreSQL: run `scripts/setup.sh databases` as root")
        self._programs = found[-1].parent
        self._temporary = tempfile.TemporaryDirectory(prefix="postgresql-")  # pytest's are for the user who runs it
        self._directory = self._temporary.name
        self._port = free_port()

    @property
    def jdbc_url(self) -> str:
        """Its database, as Spark wants it."""
        return f"jdbc:postgresql://127.0.0.1:{self._port}/postgres?user={USER}"

    def __enter__(self) -> PostgreSql:
        if os.getuid() == 0:
            shutil.chown(self._directory, USER)
        self._control("initdb", "-o", f"--username={USER} --auth=trust --no-sync")
        options = f"-c listen_addresses=127.0.0.1 -c port={self._port} -c unix_socket_directories={self._directory}"
        self._control("start", "-w", "-l", f"{self._directory}/log", "-o", options)
        return self

    def __exit__(self, *_: object) -> None:
        self._control("stop", "-m", "immediate")
        self._temporary.cleanup()

    def execute(self, *statements: str) -> None:
        """Let it do what these say, one after another."""
        for statement in statements:
            self._run("psql", "-q", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", str(self._port), "-c", statement)

    def _control(self, *arguments: str) -> None:
        self._run("pg_ctl", "-s", "-D", f"{self._directory}/data", *arguments)

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        if os.getuid() == 0:
            command = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups", *command]
        environment = os.environ | {"PGUSER": USER, "PGDATABASE": USER}
        done = subprocess.run(
            command, cwd="/", env=environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
        if done.returncode:
            raise RuntimeError(f"PostgreSQL: {program} {arguments[-1]} ended with {done.returncode}: {done.stderr}")
