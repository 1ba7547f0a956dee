"""Headers of responses that arrive slowly, or never end."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from contextlib import contextmanager

import pytest

from attrib_ds.errors import Unavailable
from attrib_ds.transports.http.retrying import AttemptFailed
from attrib_ds.transports.http.session import Call, Session, Timeouts

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"


@contextmanager
def dripping(pieces, *, seconds):
    """Answer the first connection with pieces of bytes, one by one."""
    is_over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer():
            connection, _ = listening.accept()
            with connection:
                connection.recv(1 << 16)
                for piece in pieces:
                    if is_over.wait(seconds):
                        return
                    try:
                        connection.sendall(piece)
                    except OSError:
                        return
                is_over.wait(10)

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        finally:
            is_over.set()
            thread.join()


def get(url, *, read):
    session = Session(Timeouts(read=read))
    try:
        return session.exchange(
            Call(method="GET", url=url, headers={}), lambda answer: answer.content(9), direct=True
        )
    finally:
        session.close()


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param(lambda: itertools.repeat(b"H"), id="status line"),
        pytest.param(lambda: itertools.chain([HEAD], itertools.repeat(b"a")), id="one header"),
        pytest.param(lambda: itertools.chain([HEAD], itertools.repeat(b"A: b\r\n")), id="headers"),
        pytest.param(lambda: itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n"), id="interim responses"),
    ],
)
def test_headers_must_be_complete_within_the_time_of_a_response(pieces):
    started_at = time.monotonic()
    with dripping(pieces(), seconds=0.1) as url, pytest.raises(AttemptFailed) as caught:
        get(url, read=0.5)
    assert time.monotonic() - started_at < 3
    assert isinstance(caught.value.error, Unavailable)
    assert "no response within 0.5 s" in str(caught.value.error)
    assert caught.value.retry == "if safe"


def test_headers_may_come_in_pieces():
    content = HEAD + b"A: b\r\n\r\nok"
    with dripping([bytes([byte]) for byte in content], seconds=0.001) as url:
        assert get(url, read=10) == b"ok"
