"""An API server for the command line's own tests: it keeps what it is given, and every pod runs at once. What a command in a
pod does is scripted; there is no operator behind it."""

import asyncio
import hashlib
import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml
from aiohttp import WSMsgType, web

JOBS = "/apis/windlass.dev/v1/namespaces/lab/ephemeralaccelerationjobs"
CORE = "/api/v1/namespaces/lab"
STDIN, STDOUT, STDERR, VERDICT, CLOSE = 0, 1, 2, 3, 255
SLOW_SECONDS = 1.0


class Cluster:
    """`stored` by path; `commands` are the words of each command that was run in a pod."""

    def __init__(self) -> None:
        self.url = ""
        self.stored: dict[str, dict[str, Any]] = {}
        self.logs: dict[str, str] = {}
        self.bodies: list[bytes] = []
        self.asked: list[str] = []
        """The path of every request."""
        self.has_kinds = True
        """Whether its jobs are of a kind that it knows."""
        self.commands: list[list[str]] = []
        self.stuck = ""
        """A command that hears its first bytes, or says a word, and never ends."""
        self.slow: set[str] = set()
        """Methods that are answered late."""
        self.printing: dict[str, str] = {}
        """What commands print, by their first word."""
        self.meanwhile: dict[str, Callable[[], object]] = {}
        """What somebody else does while a command runs."""
        self.failing: dict[str, tuple[int, str]] = {}
        """Commands that end with a code and words on stderr."""
        self.absent: set[str] = set()
        """Commands that are not in the pod's image."""
        self.namespaces: dict[str, int] = {CORE: 200}
        """What is answered to who asks for a namespace; 404 to any other."""
        self.directories: set[str] = set()
        """In every volume."""
        self.has_begun = threading.Event()
        """The stuck command runs."""
        self._digest = ""
        self._versions = itertools.count(1)

    def put(self, path: str, document: dict[str, Any], *, uid: str = "") -> dict[str, Any]:
        number = next(self._versions)
        name = document["metadata"]["name"]
        metadata = {"namespace": "lab", "uid": uid or f"uid-{number}", "resourceVersion": str(number)}
        kept = {**document, "metadata": {**metadata, **document["metadata"]}}
        if path.endswith("/pods"):
            kept["status"] = {"phase": "Running"}
        if path.endswith("/persistentvolumeclaims"):
            kept["status"] = {"phase": "Bound"}
        self.stored[f"{path}/{name}"] = kept
        return kept

    def job(self, name: str, **status: Any) -> dict[str, Any]:
        spec = {"image": "busybox", "resources": {"gpu": 0}}
        document = {"apiVersion": "windlass.dev/v1", "kind": "EphemeralAccelerationJob", "spec": spec}
        return self.put(JOBS, {**document, "metadata": {"name": name}, **({"status": status} if status else {})})

    def names(self, path: str) -> list[str]:
        return [key.removeprefix(f"{path}/") for key in self.stored if key.startswith(f"{path}/")]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        path, body = request.path, await request.read()
        self.asked.append(path)
        if path.startswith(JOBS) and not self.has_kinds:
            return web.Response(status=404, text="404 page not found\n")
        if body:
            self.bodies.append(body)
        if path.endswith("/exec"):
            return await self._execute(request)
        if request.method in self.slow:
            self.has_begun.set()
            await asyncio.sleep(SLOW_SECONDS)
        if path.endswith("/log"):
            text = self.logs.get(path.split("/")[-2])
            return _refused(404, "NotFound") if text is None else web.Response(text=text)
        if path == "/version":
            return web.json_response({})
        if path.count("/") == CORE.count("/"):
            code = self.namespaces.get(path, 404)
            return web.json_response({}) if code == 200 else _refused(code, "NotFound" if code == 404 else "Forbidden")
        match request.method:
            case "POST":
                document = json.loads(body)
                if f"{path}/{document['metadata']['name']}" in self.stored:
                    return _refused(409, "AlreadyExists")
                return web.json_response(self.put(path, document))
            case "GET" if not path.rpartition("/")[2].endswith("s") or path in self.stored:
                found = self.stored.get(path)
            case "GET" if "watch" in request.query:
                await asyncio.sleep(0.2)
                return web.Response(text="")
            case "GET":
                items = [self.stored[f"{path}/{name}"] for name in self.names(path)]
                return web.json_response({"metadata": {"resourceVersion": "1"}, "items": items})
            case "PATCH":
                found = self.stored.get(path)
                _merge(found if found is not None else {}, json.loads(body))
            case _:
                found = self.stored.pop(path, None)
        return _refused(404, "NotFound") if found is None else web.json_response(found)

    async def _execute(self, request: web.Request) -> web.WebSocketResponse:
        words = request.query.getall("command")
        self.commands.append(words)
        socket = web.WebSocketResponse(protocols=["v5.channel.k8s.io"], max_msg_size=0)
        await socket.prepare(request)
        with suppress(ConnectionError):
            await self._run(words, socket)
        return socket

    async def _run(self, words: list[str], socket: web.WebSocketResponse) -> None:
        self.meanwhile.get(words[0], dict)()
        if words[0] in self.absent:
            told = (
                f'OCI runtime exec failed: exec failed: exec: "{words[0]}": executable file not found in $PATH: unknown'
            )
            await socket.send_bytes(bytes((VERDICT,)) + json.dumps({"status": "Failure", "message": told}).encode())
            await socket.close()
            return
        if printed := self.printing.get(words[0]):
            await socket.send_bytes(bytes((STDOUT,)) + printed.encode())
        if words[0] == self.stuck:
            if words[0] == "tee":
                await socket.receive()
            await socket.send_bytes(bytes((STDOUT,)) + b"begun\n")
            self.has_begun.set()
            await asyncio.sleep(60)
        if words[0] == "tee":
            self._digest = await _swallow(socket)
        if words[0] == "sha256sum":
            await socket.send_bytes(bytes((STDOUT,)) + f"{self._digest}  {words[1]}\n".encode())
        code, said = self.failing.get(words[0], (int(words[0] == "test" and words[-1] not in self.directories), ""))
        if said:
            await socket.send_bytes(bytes((STDERR,)) + said.encode())
        await socket.send_bytes(bytes((VERDICT,)) + json.dumps(_verdict(code)).encode())
        await socket.close()


@contextmanager
def a_cluster() -> Iterator[Cluster]:
    cluster, loop, is_up = Cluster(), asyncio.new_event_loop(), threading.Event()

    async def serve() -> None:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", cluster.answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        cluster.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        is_up.set()
        await asyncio.get_running_loop().create_future()

    def run() -> None:
        asyncio.set_event_loop(loop)
        task = loop.create_task(serve())
        loop.run_forever()
        left = [task, *asyncio.all_tasks(loop)]
        for one in left:
            one.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert is_up.wait(10)
    yield cluster
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)


class Shell:
    """`egpu` and `windlass` as processes, spoken to a cluster."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.directory = directory
        self.config = directory / "kubeconfig"
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [{"name": "c", "cluster": {"server": cluster.url}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "lab"}}],
        }
        self.config.write_text(yaml.safe_dump(document))

    def start(self, program: str, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._command(program, words),
            cwd=self.directory,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        process = self.start(program, *words)
        out, err = process.communicate(timeout=180)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def _command(self, program: str, words: Sequence[str]) -> list[str]:
        """Where `nohup` has begun the tests, a hangup is ignored by all they start, unless it is undone."""
        code = f"from windlass.boot.entry import {program} as main; main()"
        hears_hangups = ["env", "--default-signal=HUP"]
        return [*hears_hangups, sys.executable, "-c", code, "--kubeconfig", str(self.config), *words]


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("WINDLASS_", "KUBE"))}


async def _swallow(socket: web.WebSocketResponse) -> str:
    digest = hashlib.sha256()
    async for message in socket:
        if message.type is not WSMsgType.BINARY or message.data[0] == CLOSE:
            break
        digest.update(message.data[1:])
    return digest.hexdigest()


def _verdict(code: int) -> dict[str, Any]:
    if not code:
        return {"status": "Success"}
    return {"status": "Failure", "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]}}


def _refused(code: int, reason: str) -> web.Response:
    return web.json_response({"kind": "Status", "reason": reason, "message": reason, "code": code}, status=code)


def _merge(document: dict[str, Any], change: dict[str, Any]) -> None:
    for key, value in change.items():
        if isinstance(value, dict):
            _merge(document.setdefault(key, {}), value)
        else:
            document[key] = value
