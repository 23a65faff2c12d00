"""An object store of the tests' own: moto's server, which speaks S3 as Amazon does, on a free port of loopback."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from io import BytesIO
from itertools import count as numbers
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import boto3
import pytest
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from pyarrow import fs
from werkzeug.serving import make_server

_buckets = numbers()


class ObjectStore:
    """A server, until `stop`."""

    def __init__(self) -> None:
        app = _Atomic(DomainDispatcherApplication(create_backend_app))
        self._server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_Handler)
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which Arrow, obstore and boto3 find the server."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._server.port}",
            "AWS_ACCESS_KEY_ID": "somebody",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
            "NO_PROXY": "127.0.0.1",
        }

    def new_bucket(self) -> str:
        """Create an empty bucket; return its URI. The environment must name the server."""
        name = f"kit-bucket-{next(_buckets)}"
        boto3.client("s3").create_bucket(Bucket=name)
        return f"s3://{name}"

    def bucket_for(self, monkeypatch: pytest.MonkeyPatch) -> str:
        """Return an empty bucket, which this process and those that it starts reach through the environment."""
        for name, value in self.environment.items():
            monkeypatch.setenv(name, value)
        return self.new_bucket()

    def stop(self) -> None:
        """Stop the server; its objects are gone."""
        self._server.shutdown()
        self._thread.join()


class _Handler(MotoRequestHandler):
    """A handler that logs no requests: a failed test would show a thousand lines of them."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


class _Atomic:
    """Requests one after another, each once it has arrived whole.

    S3 decides a conditional put in one step. moto looks, and then writes; of two puts at once both would succeed.
    """

    def __init__(self, app: Callable[..., Iterable[bytes]]) -> None:
        self._app = app
        self._lock = Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        arriving = environ["wsgi.input"]
        whole = environ.get("wsgi.input_terminated")
        environ["wsgi.input"] = BytesIO(arriving.read(-1 if whole else int(environ.get("CONTENT_LENGTH") or 0)))
        with self._lock:
            return self._app(environ, start_response)


def download(uri: str, directory: Path) -> None:
    """Copy everything below a URI into a new local directory."""
    directory.mkdir(parents=True)
    system, inner = fs.FileSystem.from_uri(uri)
    fs.copy_files(inner, str(directory), source_filesystem=system, destination_filesystem=fs.LocalFileSystem())
