"""A server of the standard library on this machine, in a thread of its own."""

import threading
from contextlib import contextmanager
from http.server import ThreadingHTTPServer


@contextmanager
def listening(handler):
    """Serve with a handler while the block runs; yields the port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        # It looks that often whether it is to stop.
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
