"""A server of the standard library on this machine, in a thread of its own."""

import sys
import threading
from contextlib import contextmanager
from http.server import ThreadingHTTPServer


class _Server(ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        # A browser that ends resets its connections.
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def listening(handler):
    """Serve with a handler while the block runs; yields the port."""
    with _Server(("127.0.0.1", 0), handler) as server:
        # It looks that often whether it is to stop.
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
