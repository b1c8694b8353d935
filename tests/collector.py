"""A collector of OpenTelemetry: a real receiver of OTLP over HTTP, on a port of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

ERROR = 2
CLIENT = 3
INTERNAL = 1


class Received(NamedTuple):
    """A span as it came."""

    name: str
    trace: str
    own: str
    parent: str
    kind: int
    attributes: dict[str, Any]
    events: list[tuple[str, dict[str, Any]]]
    is_error: bool
    links: list[str]
    start: int
    end: int

    @property
    def operation(self) -> str:
        return str(self.attributes.get("gen_ai.operation.name", ""))


class Collector:
    """What has come so far."""

    def __init__(self, status: int = 200) -> None:
        self.spans: list[Received] = []
        self.resources: list[dict[str, Any]] = []
        self.requests: list[str] = []
        """The paths, also of what was refused."""
        self.status = status
        self.is_hanging = False
        self.released = threading.Event()
        self.came = threading.Condition()
        self.port = 0

    @property
    def environment(self) -> dict[str, str]:
        """What makes a command send to it."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.port}"}

    def named(self, name: str) -> list[Received]:
        return [span for span in self.spans if span.name == name]

    def wait_for(self, name: str) -> None:
        """Wait until a span of this name has come."""
        with self.came:
            assert self.came.wait_for(lambda: self.named(name), timeout=60)

    def take(self, path: str, body: bytes) -> None:
        assert path == "/v1/traces"
        for sent in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resources.append(_attributes(sent.resource.attributes))
            self.spans += [_span(s) for scope in sent.scope_spans for s in scope.spans]
        with self.came:
            self.came.notify_all()


@contextmanager
def collector(status: int = 200, *, is_hanging: bool = False) -> Iterator[Collector]:
    """A collector that listens meanwhile; one that hangs takes requests and never answers."""
    received = Collector(status)
    received.is_hanging = is_hanging

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            received.requests.append(self.path)
            if received.is_hanging:
                received.released.wait(60)
                return
            if received.status == 200:
                received.take(self.path, body)
            self.send_response(received.status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    received.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield received
    finally:
        received.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, kind)


def _span(sent: Any) -> Received:
    return Received(
        name=sent.name,
        trace=sent.trace_id.hex(),
        own=sent.span_id.hex(),
        parent=sent.parent_span_id.hex(),
        kind=sent.kind,
        attributes=_attributes(sent.attributes),
        events=[(event.name, _attributes(event.attributes)) for event in sent.events],
        is_error=sent.status.code == ERROR,
        links=[link.trace_id.hex() for link in sent.links],
        start=sent.start_time_unix_nano,
        end=sent.end_time_unix_nano,
    )
