"""TLS on the ports of a job: both ends verified, a plain end and a stranger's certificate refused."""

from __future__ import annotations

import contextlib
import pickle
import re
import socket
import ssl
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from kit.hosts.spark import DriverSettings, SparkJob, Tls, WireSettings
from kit.hosts.spark.wire.auth import DRIVER, AuthenticationError, Party, Purpose, authenticate
from kit.hosts.spark.wire.channels import CreditArrived, DataPlane, ElementArrived, Route
from kit.hosts.spark.wire.control import ControlClient, SlotJoined, SlotLeft, SlotMessage
from kit.hosts.spark.wire.endpoint import dial
from kit.hosts.spark.wire.stream import open_stream
from kit.hosts.spark.wire.tls import RUN_NAME, TlsError
from kit.hosts.spark.wire.wire import ControlMessage
from tests.hosts.spark.jobs import ThreadGang, await_checkpoint, check_output, generator, totals_job
from tests.hosts.spark.sockets import SECRET, SETTINGS, Inbox, await_lines, deadline, lines, serving

OURS, ANOTHER_RUNS = Tls.for_this_run(), Tls.for_this_run()
SECURE = WireSettings(tls=OURS)


def test_control_messages_of_any_size_go_both_ways(nothing_left: None) -> None:
    inbox, slot_inbox = Inbox(), Inbox()
    with serving(inbox, slots=1, settings=SECURE) as server:
        client = ControlClient(server.endpoint, SECRET, 0, 1, slot_inbox, settings=SECURE)
        inbox.next(SlotJoined)
        message = ControlMessage("ack", {}, [bytes(3_000_000)])
        for _ in range(10):
            client.send(message)
            server.send(0, message)
        for _ in range(10):
            assert inbox.next() == SlotMessage(0, 1, message)
            assert slot_inbox.next().message == message
        client.close()
        assert inbox.next() == SlotLeft(0, 1, True, "ended")


def test_batches_and_credits_go_pickled(nothing_left: None) -> None:
    routes = [Route(1, 0, 1)]
    with (
        DataPlane(0, 1, SECRET, Inbox(), directory=None, settings=SECURE) as sender,
        DataPlane(1, 1, SECRET, Inbox(), directory=None, settings=SECURE) as receiver,
    ):
        sender.connect({1: receiver.endpoints}, routes)
        receiver.connect({0: sender.endpoints}, routes)
        batches = [pa.record_batch({"value": np.arange(number * 10_000)}) for number in range(10)]
        for batch in batches:
            sender.send(1, batch)
            receiver.grant(1, 1)
        assert [receiver.inbox.get(timeout=20) for _ in batches] == [ElementArrived(1, batch) for batch in batches]
        assert [sender.inbox.get(timeout=20) for _ in batches] == [CreditArrived(1, 1)] * 10


@pytest.mark.parametrize(
    ("settings", "why", "logged"),
    [
        (SETTINGS, "closed the connection during authentication", "no TLS: .*"),
        (WireSettings(tls=ANOTHER_RUNS), "TLS failed: .*certificate verify failed", "no TLS: .*"),
        (
            WireSettings(tls=replace(ANOTHER_RUNS, authorities=OURS.authorities)),
            "TLS failed: .*",
            "no TLS: .*certificate verify failed",
        ),
        (WireSettings(tls=replace(OURS, server_name="other.invalid")), "TLS failed: .*mismatch", "no TLS: .*"),
    ],
    ids=["plain", "another authority", "a certificate of another authority", "another name"],
)
def test_who_cannot_prove_itself_is_refused(
    nothing_left: None, settings: WireSettings, why: str, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The job's secret does not help."""
    inbox = Inbox()
    with serving(inbox, slots=1, settings=SECURE) as server:
        place = re.escape(str(server.endpoint))
        with pytest.raises(AuthenticationError, match=f"{place}.*{why}"):
            dial([server.endpoint], SECRET, Purpose.CONTROL, Party(0, 1), DRIVER, settings=settings)
        await_lines(caplog, 1)
    assert inbox.empty()
    assert re.search(f"cut off a connection from 127.0.0.1:[0-9]+: {logged}", lines(caplog)[0])


def test_a_client_without_a_certificate_is_refused(nothing_left: None, caplog: pytest.LogCaptureFixture) -> None:
    """It trusts our authority, speaks TLS 1.3 and holds the secret."""
    context = ssl.create_default_context(cadata=OURS.authorities.decode())
    inbox = Inbox()
    with serving(inbox, slots=1, settings=SECURE) as server:
        sock = socket.create_connection((server.endpoint.host, server.endpoint.port))
        with contextlib.closing(open_stream(sock, server.endpoint, context, RUN_NAME)) as stream:
            stream.negotiate(deadline())  # in TLS 1.3 a client learns only later that it was rejected
            with pytest.raises((ssl.SSLError, AuthenticationError)):
                authenticate(stream, SECRET, Purpose.CONTROL, Party(0, 1), DRIVER, deadline=deadline())
        await_lines(caplog, 1)
        assert server.slots() == []
    assert inbox.empty()
    assert re.search("no TLS: .*peer did not return a certificate", lines(caplog)[0], re.IGNORECASE)


@pytest.mark.parametrize("server_name", ["", RUN_NAME])
def test_a_listener_without_a_certificate_of_the_authority_is_refused(nothing_left: None, server_name: str) -> None:
    ours = WireSettings(tls=replace(OURS, server_name=server_name))
    with (
        serving(Inbox(), settings=WireSettings(tls=ANOTHER_RUNS)) as server,
        pytest.raises(AuthenticationError, match=r"TLS failed: .*certificate verify failed"),
    ):
        dial([server.endpoint], SECRET, Purpose.CONTROL, Party(0, 1), DRIVER, settings=ours)


def test_a_jobs_ports_speak_tls_and_nothing_else(nothing_left: None, tmp_path: Path) -> None:
    settings = DriverSettings(wire=replace(SECURE, unix_sockets=False))
    slowly = totals_job(tmp_path, generator(rows_per_second=1_000))
    with SparkJob(slowly, launch=pickled, settings=settings) as job:
        job.start()
        await_checkpoint(job, 1)
        planes = [slot._plane for slot in ThreadGang.current.slots]
        assert all(endpoint.path == "" for plane in planes for endpoint in plane.endpoints)
        for endpoint in (job._driver.slots.server.endpoint, *(plane.endpoints[-1] for plane in planes)):
            with socket.create_connection((endpoint.host, endpoint.port)) as sock:
                context = ssl.create_default_context(cadata=OURS.authorities.decode())
                with context.wrap_socket(sock, server_hostname=RUN_NAME) as inside:
                    assert inside.version() == "TLSv1.3"
            with pytest.raises(AuthenticationError):
                dial([endpoint], job._driver.slots.secret, Purpose.CONTROL, Party(9, 1), DRIVER, settings=SETTINGS)
        savepoint = job.stop(tmp_path / "savepoints")
    with SparkJob(totals_job(tmp_path), launch=pickled, restore_path=savepoint, settings=settings) as rest:
        rest.start()
        assert rest.wait() == "FINISHED"
    check_output(tmp_path)


def pickled(ticket: object, ended: Callable[[str], None]) -> ThreadGang:
    """Slots whose ticket has gone through a pickle, as with Spark."""
    return ThreadGang(pickle.loads(pickle.dumps(ticket)), ended)


def test_certificates_may_be_files(nothing_left: None, tmp_path: Path) -> None:
    """Made by another program; the key is in none of the texts that a person sees."""
    run = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    run += ["-subj", "/CN=cluster.example", "-addext", "subjectAltName=DNS:cluster.example"]
    made = subprocess.run(
        [*run, "-keyout", "key.pem", "-out", "own.pem"], cwd=tmp_path, capture_output=True, check=False
    )
    assert made.returncode == 0, made.stderr
    files = [tmp_path / name for name in ("own.pem", "key.pem", "own.pem")]
    tls = Tls.from_files(*files, server_name="cluster.example")
    inbox = Inbox()
    with serving(inbox, slots=1, settings=WireSettings(tls=tls)) as server:
        dial([server.endpoint], SECRET, Purpose.CONTROL, Party(0, 1), DRIVER, settings=WireSettings(tls=tls)).close()
    assert repr(tls) == "Tls(server_name='cluster.example')"
    with pytest.raises(TlsError, match="these are not a certificate, its key and the authorities to trust"):
        Tls.from_files(files[0], files[0], files[0])


def test_a_driver_on_every_address_needs_one_to_tell() -> None:
    with pytest.raises(ValueError, match=r"host='0\.0\.0\.0' listens on every address .* set advertised_host too"):
        DriverSettings(host="0.0.0.0")
