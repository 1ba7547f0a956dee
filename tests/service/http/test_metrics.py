"""Metrics for Prometheus, read as it reads them."""

import socket

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families
from support.http_caller import TIMEOUT
from support.service_records import uuid

from attrib_ds.errors import Unavailable
from attrib_ds.service import Service
from attrib_ds.service.http.server import ServerOptions, running


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def samples(port):
    text = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=TIMEOUT).text
    return {
        (sample.name, *(sample.labels[label] for label in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.large
@pytest.mark.slow
def test_requests_are_counted_by_operation_and_status(tmp_path):
    Service.open("shop", tmp_path / "shop.duckdb").close()
    port = free_port()
    with running(tmp_path, options=ServerOptions(metrics=("127.0.0.1", port))) as url:
        assert requests.get(f"{url}/metrics", timeout=TIMEOUT).status_code == 404
        for path in ("a", "b?c=d", "a"):
            requests.get(f"{url}/{path}", timeout=TIMEOUT)
        for _ in range(2):
            requests.get(f"{url}/api/v1/projects/shop/nodes", timeout=TIMEOUT)
        hit = {"projectId": "shop", "hitId": uuid(1), "trackerId": "t-1", "pageUrl": "https://shop.example/"}
        assert requests.post(f"{url}/c", json=hit, timeout=TIMEOUT).status_code == 202
        found = samples(port)
    # Paths that clients make up share one label.
    assert found["attrib_ds_requests_total", "none", "404"] == 4
    assert found["attrib_ds_requests_total", "list_nodes", "401"] == 2
    assert found["attrib_ds_requests_total", "/c", "202"] == 1
    assert found["attrib_ds_request_seconds_count", "list_nodes"] == 2
    assert 0 <= found["attrib_ds_waiting_records", "hits", "shop"] <= 1
    assert found["attrib_ds_waiting_records", "events", "shop"] == 0
    assert found[("process_cpu_seconds_total",)] > 0
    with pytest.raises(requests.ConnectionError):
        requests.get(f"http://127.0.0.1:{port}/metrics", timeout=TIMEOUT)


def test_a_port_in_use_is_told(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        options = ServerOptions(metrics=("127.0.0.1", port))
        problem = pytest.raises(Unavailable, match=f"metrics: cannot listen on 127.0.0.1 port {port}")
        with problem, running(tmp_path, options=options):
            pass
