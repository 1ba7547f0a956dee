"""Metrics of a server for Prometheus: requests by operation and status, and what waits to be stored."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import prometheus_client
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from attrib_ds.errors import Unavailable
from attrib_ds.service.collection.collector import Collector as HitCollector
from attrib_ds.service.http.projects import Projects

#: Bounds of the histogram in seconds: from an accepted hit to the deadline of a read.
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics(Collector):
    """What a server counts. Operations are those of the contract, so that no request adds a label.

    Parameters
    ----------
    projects : Projects or Collector
        Projects of the server.

    Attributes
    ----------
    registry : CollectorRegistry
        Metrics of this server and of its process.
    """

    def __init__(self, projects: Projects | HitCollector) -> None:
        self._projects = projects
        self.registry = prometheus_client.CollectorRegistry()
        self._seconds = prometheus_client.Histogram(
            "attrib_ds_request_seconds",
            "Time from a request to the end of its response",
            ["operation"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._requests = prometheus_client.Counter(
            "attrib_ds_requests",
            "Requests by status; 499: the client had gone",
            ["operation", "status"],
            registry=self.registry,
        )
        prometheus_client.ProcessCollector(registry=self.registry)
        self.registry.register(self)

    def count(self, operation: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(operation, str(status)).inc()
        self._seconds.labels(operation).observe(seconds)

    def collect(self) -> Iterator[Metric]:
        """Yield what is measured when it is asked for."""
        waiting = GaugeMetricFamily(
            "attrib_ds_waiting_records",
            "Accepted records that are not yet in the tables",
            labels=["project", "kind"],
        )
        for project_id, numbers in self._projects.waiting().items():
            for kind, number in numbers.items():
                waiting.add_metric([project_id, kind], number)
        yield waiting


@contextmanager
def served(metrics: Metrics, host: str, port: int) -> Iterator[None]:
    """Serve metrics at ``/metrics`` of a port of their own while the block runs.

    Raises
    ------
    Unavailable
        If the port cannot be used.
    """
    try:
        server, thread = prometheus_client.start_http_server(port, addr=host, registry=metrics.registry)
    except OSError as error:
        raise Unavailable(
            f"metrics: cannot listen on {host} port {port}: {error}", field="metrics"
        ) from error
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
