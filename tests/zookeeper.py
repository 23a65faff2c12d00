"""A ZooKeeper of the tests' own: Debian's package, its data in a temporary directory, on a free port of loopback."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path

from tests.ports import free_port

JAR = Path("/usr/share/java/zookeeper.jar")
LOGGER = Path("/usr/share/java/slf4j-simple.jar")
START_S = 30.0


class ZooKeeper:
    """A server, from `start` to `stop`; what it holds survives a restart."""

    def __init__(self, directory: Path) -> None:
        if not JAR.exists() or shutil.which("java") is None:
            raise RuntimeError("the tests need ZooKeeper: as root, apt-get install zookeeper, then run them again")
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        (directory / "zoo.cfg").write_text(
            f"dataDir={directory / 'data'}\n"
            f"clientPort={self.port}\n"
            "clientPortAddress=127.0.0.1\n"
            "tickTime=500\n"
            "maxClientCnxns=0\n"
            "admin.enableServer=false\n"
            "4lw.commands.whitelist=srvr\n"
        )

    @property
    def hosts(self) -> str:
        """Its address, as clients want it."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> ZooKeeper:
        """Start the server and wait until it takes connections."""
        log = (self._directory / "log").open("ab")
        self._process = subprocess.Popen(
            [
                "java",
                "-cp",
                f"{JAR}:{LOGGER}",
                "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                str(self._directory / "zoo.cfg"),
            ],
            stdout=log,
            stderr=log,
        )
        log.close()
        end_s = time.monotonic() + START_S
        while time.monotonic() < end_s and self._process.poll() is None:
            if self._serves():
                return self
            time.sleep(0.05)
        self.stop()
        raise RuntimeError(f"ZooKeeper does not start: see {self._directory / 'log'}")

    def _serves(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2.0) as probe:
                probe.sendall(b"srvr")
                return b"Mode:" in probe.recv(4096)
        except OSError:
            return False

    def stop(self) -> None:
        """Kill the server."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
