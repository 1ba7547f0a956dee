"""HTTP over raw sockets, for what no client sends."""

import socket
from contextlib import contextmanager
from urllib.parse import urlsplit

from support.http_caller import TIMEOUT

LIVE = b"GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n"
EVENTS = b"POST /api/v1/events HTTP/1.1\r\nHost: a\r\n"


@contextmanager
def connected(url, data=b""):
    """Connect to a server and send something; yield the socket."""
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port), timeout=TIMEOUT) as connection:
        connection.sendall(data)
        yield connection


def rest_of(connection) -> bytes:
    """Return what comes until the server closes the connection."""
    received = b""
    while piece := connection.recv(1 << 16):
        received += piece
    return received


def one_response(connection) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received:
        piece = connection.recv(1)
        assert piece, received
        received += piece
    lines = received.lower().split(b"\r\n")
    length = next(int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length"))
    while length:
        piece = connection.recv(length)
        received += piece
        length -= len(piece)
    return received


def statuses(received) -> list[int]:
    """Return the statuses of the responses in what was received."""
    return [int(part[:3]) for part in received.split(b"HTTP/1.1 ")[1:]]
