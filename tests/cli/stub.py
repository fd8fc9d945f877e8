"""A small server of `/api/v1` on a loopback port, made to misbehave on demand: what the client must survive is hard to get from
a healthy server. What the product does is tested against the real one."""

import base64
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Query = dict[str, list[str]]


def a_job(name: str = "hello", **changes: Any) -> dict[str, Any]:
    """A manifest as the server answers it; `status__state="RUNNING"` reaches inside."""
    job: dict[str, Any] = {
        "apiVersion": "windlass.dev/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "uid": f"0190a0b0-0000-7000-8000-{abs(hash(name)) % 10**12:012d}",
            "creationTimestamp": "2026-11-15T12:00:00.000Z",
        },
        "spec": {"image": "busybox", "command": ["echo", "hi"], "resources": {"cpu": "1", "memory": "512Mi", "gpu": 0}},
        "status": {"phase": "Pending", "state": "PENDING", "attempt": 0, "waiting": [], "conditions": [], "runs": []},
    }
    for path, value in changes.items():
        *parents, last = path.split("__")
        at = job
        for parent in parents:
            at = at[parent]
        at[last] = value
    return job


def ended(job: dict[str, Any], exit_code: int = 0) -> dict[str, Any]:
    job["status"] |= {
        "state": "SUCCEEDED" if exit_code == 0 else "FAILED",
        "phase": "Succeeded" if exit_code == 0 else "Failed",
        "reason": "" if exit_code == 0 else "ExitCode",
        "exitCode": exit_code,
        "attempt": 1,
        "startedAt": "2026-11-15T12:00:01.000Z",
        "finishedAt": "2026-11-15T12:00:04.200Z",
    }
    return job


class Asked:
    def __init__(self, method: str, path: str, query: Query, headers: dict[str, str], body: bytes) -> None:
        self.method, self.path, self.query, self.headers, self.body = method, path, query, headers, body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def __repr__(self) -> str:
        return f"{self.method} {self.path}"


Answer = tuple[int, Any] | tuple[int, Any, dict[str, str]]


class Stub:
    """Holds jobs and logs; `script` puts answers before the usual ones; `asked` remembers every request."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.lines: dict[str, list[tuple[str, str]]] = {}
        self.exit_codes: dict[str, int] = {}
        self.cut_logs_after: list[int] = []
        """Each number is one connection of the log stream that breaks off after so many events, in the middle of the next."""
        self.log_errors: list[dict[str, Any]] = []
        """Each ends one connection of the log stream after its first event, with an event `error`."""
        self.held: dict[str, threading.Event] = {}
        """Logs that do not end before somebody sets the event, or cancels the job."""
        self.eventful: dict[str, threading.Event] = {}
        """Events that do not end before somebody sets this."""
        self.listened_for: list[str] = []
        """Jobs whose events somebody follows, as often as that was begun."""
        self.repeats_after_resume = 0
        self.uploads: dict[str, bytes] = {}
        self.downloads: dict[str, bytes] = {}
        self.asked: list[Asked] = []
        self.scripted: list[tuple[str, Answer]] = []
        self.revision = 7
        self.happened: dict[str, list[dict[str, Any]]] = {}
        self.nodes: list[dict[str, Any]] = []
        self.volumes: list[dict[str, Any]] = []
        self.cleaned: dict[str, Any] = {"deleted": 0, "skipped": 0, "items": []}
        self.url = ""

    def script(self, start: str, *answers: Answer) -> None:
        """The next requests whose `METHOD /path` begins with `start` get these."""
        self.scripted += [(start, answer) for answer in answers]

    def find(self, ref: str) -> dict[str, Any] | None:
        return next((j for j in self.jobs.values() if ref in (j["metadata"]["name"], j["metadata"]["uid"])), None)

    def requests(self, start: str) -> list[Asked]:
        return [asked for asked in self.asked if repr(asked).startswith(start)]


@contextmanager
def serving() -> Iterator[Stub]:
    stub = Stub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(stub))
    server.daemon_threads = True
    stub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def problem(status: int, code: str, detail: str, **more: Any) -> Answer:
    return (
        status,
        {
            "type": "about:blank",
            "title": code,
            "status": status,
            "code": code,
            "detail": detail,
            "faults": [],
            "request_id": "r-1",
        }
        | more,
    )


def _handler(stub: Stub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None: ...

        def _serve(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked = Asked(self.command, unquote(parts.path), parse_qs(parts.query), dict(self.headers), body)
            stub.asked.append(asked)
            for index, (start, answer) in enumerate(stub.scripted):
                if repr(asked).startswith(start):
                    del stub.scripted[index]
                    if answer[0] == 0:
                        self.close_connection = True
                        self.connection.close()
                        return
                    self._answer(*answer)
                    return
            route(self, stub, asked)

        def _answer(self, status: int, document: Any, headers: dict[str, str] | None = None) -> None:
            content = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(status)
            shown = {"Content-Length": str(len(content)), "Windlass-Revision": str(stub.revision)} | (headers or {})
            for name, value in shown.items():
                self.send_header(name, value)
            self.close_connection = shown["Content-Length"] != str(len(content))
            self.end_headers()
            self.wfile.write(content)

        def begin_stream(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True

        def event(self, name: str, event_id: str, data: Any, *, cut: bool = False) -> None:
            text = f"event: {name}\nid: {event_id}\ndata: {json.dumps(data)}\n\n".encode()
            self.wfile.write(text[: len(text) // 2] if cut else text)
            self.wfile.flush()

    for verb in ("GET", "POST", "PUT", "DELETE"):
        setattr(Handler, f"do_{verb}", Handler._serve)
    return Handler


def route(handler: Any, stub: Stub, asked: Asked) -> None:
    words = asked.path.removeprefix("/api/v1/").split("/")
    if words[0] == "jobs" and len(words) == 1:
        return _jobs(handler, stub, asked)
    if words[0] == "jobs" and len(words) == 2:
        return _one_job(handler, stub, asked, words[1])
    if words[0] == "jobs":
        job = stub.find(words[1])
        if job is None:
            return handler._answer(*problem(404, "not-found", f"there is no job {words[1]}"))
        return _ABOUT_A_JOB[words[2]](handler, stub, asked, job)
    if asked.path == "/api/v1/nodes":
        return handler._answer(200, {"items": stub.nodes})
    if asked.path == "/api/v1/events/recorded":
        return handler._answer(200, {"items": [], "next": None, "revision": stub.revision})
    if asked.path == "/api/v1/volumes":
        return handler._answer(200, {"items": stub.volumes})
    if asked.path == "/api/v1/volumes/cleanup":
        return handler._answer(200, stub.cleaned)
    if words[0] == "volumes" and words[-1] == "copy-file":
        name = f"artifacts-{words[1]}"
        return handler._answer(
            201, {"volume": name, "path": asked.json["targetPath"], "size": 3, "digest": "sha256:ab"}
        )
    if asked.path == "/api/v1/version":
        return handler._answer(200, {"version": "9.9.9"})
    if asked.path == "/api/v1/whoami":
        return handler._answer(200, {"subject": "admin", "tenant": "local", "roles": ["admin"]})
    return handler._answer(*problem(404, "not-found", "there is nothing here"))


def _jobs(handler: Any, stub: Stub, asked: Asked) -> None:
    if asked.method == "POST":
        manifest = asked.json
        name = manifest["metadata"].get("name") or "made-up-name"
        if stub.find(name):
            return handler._answer(*problem(409, "name-taken", f"the name {name} is taken"))
        job = a_job(name)
        job["kind"], job["spec"] = manifest["kind"], manifest["spec"]
        stub.jobs[name] = job
        stub.lines.setdefault(name, [])
        return handler._answer(201, job)
    prefix = asked.query.get("name", [""])[0]
    states = asked.query.get("state", [])
    found = [
        job
        for job in stub.jobs.values()
        if job["metadata"]["name"].startswith(prefix) and (not states or job["status"]["state"] in states)
    ]
    start, limit = int(asked.query.get("cursor", ["0"])[0]), int(asked.query.get("limit", ["100"])[0])
    more = start + limit < len(found)
    page = {
        "items": found[start : start + limit],
        "next": str(start + limit) if more else None,
        "revision": stub.revision,
    }
    return handler._answer(200, page)


def _one_job(handler: Any, stub: Stub, asked: Asked, ref: str) -> None:
    job = stub.find(ref)
    if asked.method == "PUT":
        if job is None:
            stub.jobs[ref] = a_job(ref, spec=asked.json.get("spec", {}))
            return handler._answer(201, stub.jobs[ref])
        if job["spec"] != asked.json.get("spec", {}):
            return handler._answer(*problem(409, "spec-immutable", "the spec of a job cannot change"))
        return handler._answer(200, job)
    if job is None:
        return handler._answer(*problem(404, "not-found", f"there is no job {ref}"))
    if asked.method == "DELETE":
        del stub.jobs[job["metadata"]["name"]]
        is_gone = job["status"].get("state") != "RUNNING"
        return handler._answer(202, {"name": ref, "uid": job["metadata"]["uid"], "isGone": is_gone})
    return handler._answer(200, job)


def _cancel(handler: Any, stub: Stub, asked: Asked, job: dict[str, Any]) -> None:
    job["status"] |= {"state": "CANCELLED", "reason": "Cancelled"}
    if job["metadata"]["name"] in stub.held:
        stub.held[job["metadata"]["name"]].set()
    handler._answer(202, job)


def _release(handler: Any, stub: Stub, asked: Asked, job: dict[str, Any]) -> None:
    job["spec"]["suspend"] = False
    handler._answer(200, job)


def _logs(handler: Any, stub: Stub, asked: Asked, job: dict[str, Any]) -> None:
    lines = stub.lines.get(job["metadata"]["name"], [])
    wanted = asked.query.get("stream", [None])[0]
    last = asked.headers.get("Last-Event-ID")
    first = 0 if last is None else max(0, int(last) - stub.repeats_after_resume)
    if "tail" in asked.query:
        first = max(first, len(lines) - int(asked.query["tail"][0]))
    cut = stub.cut_logs_after.pop(0) if stub.cut_logs_after else None
    handler.begin_stream()
    for sent, index in enumerate(range(first, len(lines))):
        stream, text = lines[index]
        if wanted and stream != wanted:
            continue
        data = {"at": f"2026-11-15T12:00:0{index % 10}.000000000Z", "stream": stream, "text": text}
        handler.event("line", str(index + 1), data, cut=cut == sent)
        if cut == sent:
            return None
        if stub.log_errors:
            return handler.event("error", "", stub.log_errors.pop(0))
    if job["metadata"]["name"] in stub.held:
        stub.held[job["metadata"]["name"]].wait(60)
    if job["status"]["state"] == "CANCELLED":
        return handler.event("end", "", {"state": "CANCELLED", "exitCode": None})
    ended(job, stub.exit_codes.get(job["metadata"]["name"], 0))
    return handler.event("end", "", {"state": job["status"]["state"], "exitCode": job["status"].get("exitCode")})


def _events(handler: Any, stub: Stub, asked: Asked, job: dict[str, Any]) -> None:
    items = stub.happened.get(job["metadata"]["name"], [])
    if asked.query.get("follow") != ["true"]:
        return handler._answer(200, {"items": items})
    handler.begin_stream()
    stub.listened_for.append(job["metadata"]["name"])
    for item in items:
        handler.event("event", str(item["revision"]), item)
    if job["metadata"]["name"] in stub.eventful:
        stub.eventful[job["metadata"]["name"]].wait(60)
    handler.event("end", "", {})
    return None


def _artifacts(handler: Any, stub: Stub, asked: Asked, job: dict[str, Any]) -> None:
    path = asked.query.get("path", [""])[0]
    if asked.method == "GET":
        key = f"{asked.query.get('format', ['tar'])[0]}:{path}"
        if key not in stub.downloads:
            return handler._answer(*problem(404, "not-found", f"there is no {path}"))
        return handler._answer(200, stub.downloads[key])
    digest = hashlib.sha256(asked.body)
    if asked.headers["Content-Digest"] != f"sha-256=:{base64.b64encode(digest.digest()).decode()}:":
        return handler._answer(*problem(400, "digest-mismatch", "the digest does not fit"))
    if not job["spec"].get("suspend"):
        return handler._answer(*problem(409, "not-suspended", f"{job['metadata']['name']} is no longer suspended"))
    stub.uploads[path] = asked.body
    entries, stored = 1, asked.body
    if asked.query["unpack"] == ["true"]:
        with tarfile.open(fileobj=io.BytesIO(asked.body)) as tar:
            entries, stored = len(tar.getmembers()), b"in a form of the server's own"
    found = {"digest": f"sha256:{hashlib.sha256(stored).hexdigest()}", "size": len(stored), "entries": entries}
    return handler._answer(200, found)


_ABOUT_A_JOB: dict[str, Callable[..., Any]] = {
    "cancel": _cancel,
    "release": _release,
    "logs": _logs,
    "events": _events,
    "artifacts": _artifacts,
}
