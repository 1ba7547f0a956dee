"""Run a vendor's service on this machine: `serving`, for fixtures."""

import json
import socket
import threading
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace

import uvicorn
from support.vendor.server import Vendor, account
from support.vendor.variations import VARIATIONS, Variation
from support.waiting import eventually


@contextmanager
def serving(folder: Path, variation: Variation | str = "plain", **data):
    """Run a service until the block ends; it answers when the block starts. `data` are `seed`, `users`, `project`.

    Yields its addresses, its project, the file of a key that fits, and the service itself.
    """
    variation = VARIATIONS[variation] if isinstance(variation, str) else variation
    vendor, key = Vendor(variation, **data), Path(folder) / "vendor-key.json"
    key.touch(mode=0o600)
    key.write_text(json.dumps(account()[0]))
    quiet = {"log_config": None, "log_level": "critical", "date_header": False}
    server = uvicorn.Server(uvicorn.Config(vendor.app, http="h11", ws="none", lifespan="off", **quiet))
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        vendor.address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread = threading.Thread(target=server.run, args=([listener],), name="vendor", daemon=True)
        thread.start()
        try:
            eventually(lambda: server.started)
            bases = {"url": "/api/v1", "url_v2": "/api/v2", "auth_url": "/auth"}
            bases = {name: f"{vendor.address}{base}{variation.prefix}" for name, base in bases.items()}
            yield SimpleNamespace(**bases, project=vendor.world.project, key=key, vendor=vendor)
        finally:
            server.should_exit = True
            thread.join(60)
    assert not vendor.failures, vendor.failures[0]
