"""A TCP proxy on loopback that breaks connections between a client and a server, as networks do."""

from __future__ import annotations

import contextlib
import itertools
import random
import socket
import struct
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What may happen to a connection; None lets it pass.
FAULTS = (
    # The server gets nothing.
    "reset before the request",
    # The server gets a part of the request.
    "reset in the request",
    # The server carries the request out, and the client gets no answer.
    "reset before the answer",
    # The client gets a part of the answer.
    "reset in the answer",
    "close in the answer",
    # Everything arrives, in small pieces with pauses.
    "slow request",
    "slow answer",
)
_PIECE = 65_536
_LATENESS = 0.02


class FaultyProxy:
    """Forwards connections to a server, and breaks some of them.

    Parameters
    ----------
    target : tuple of str and int
        Host and port of the server.
    seed : int
        Decides which requests fail, and how.
    share : float
        Share of the requests whose connection breaks.
    """

    def __init__(self, target: tuple[str, int], *, seed: int, share: float = 0.2) -> None:
        self._target = target
        self._random = random.Random(seed)
        self._share = share
        # In turn, so that none is missing from a short run.
        self._order = itertools.cycle(FAULTS)
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.faults: Counter = Counter()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        plan = _Plan(self._random, self._share, self._order, self.faults)
        with client, contextlib.suppress(OSError), socket.create_connection(self._target, 5) as server:
            threading.Thread(target=_send, args=(client, server, plan), daemon=True).start()
            _answer(server, client, plan)


@dataclass
class _Plan:
    """What happens to a connection next."""

    random: random.Random
    share: float
    order: Iterator[str]
    faults: Counter
    fault: str | None = None
    #: Bytes that pass before the connection breaks.
    left: int = 0

    def draw(self) -> None:
        """Decide what happens to the next piece of a request, and to its answer."""
        self.fault = next(self.order) if self.random.random() < self.share else None
        self.left = self.random.randrange(400)
        self.faults[self.fault] += 1


def _send(client: socket.socket, server: socket.socket, plan: _Plan) -> None:
    with contextlib.suppress(OSError):
        while piece := client.recv(_PIECE):
            plan.draw()
            if plan.fault == "reset before the request":
                _reset(server)
                _reset(client)
                return
            if plan.fault == "reset in the request":
                server.sendall(piece[: plan.left])
                _reset(server)
                _reset(client)
                return
            if plan.fault == "slow request":
                _trickle(server, piece)
            else:
                server.sendall(piece)
        server.shutdown(socket.SHUT_WR)


def _answer(server: socket.socket, client: socket.socket, plan: _Plan) -> None:
    while piece := server.recv(_PIECE):
        if plan.fault == "reset before the answer":
            _reset(client)
            return
        if plan.fault in ("reset in the answer", "close in the answer"):
            client.sendall(piece[: plan.left])
            _reset(client) if plan.fault.startswith("reset") else client.close()
            return
        if plan.fault == "slow answer":
            _trickle(client, piece)
        else:
            client.sendall(piece)


def _reset(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RD)
    connection.close()


def _trickle(connection: socket.socket, content: bytes) -> None:
    """Send in about 8 pieces, with pauses."""
    size = max(len(content) // 8, 1)
    for begin in range(0, len(content), size):
        connection.sendall(content[begin : begin + size])
        time.sleep(_LATENESS)
