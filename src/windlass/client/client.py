"""The typed client of `/api/v1`: one method per thing a caller can ask for. Errors are those of `core.errors`."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec

from windlass.client.connection import Connection
from windlass.client.documents import (
    Cleanup,
    CopiedFile,
    Deleted,
    Document,
    EventPage,
    Happening,
    Login,
    LogLine,
    Manifest,
    Node,
    Page,
    Plan,
    Rotation,
    Secret,
    Upload,
    Volume,
    Why,
)
from windlass.client.governing import Governing
from windlass.client.pooling import Pooling
from windlass.client.streams import EventStream, Followed
from windlass.client.transport import Answer, Query, Stream, Transport, segment
from windlass.core.errors import Conflict, Unavailable

if TYPE_CHECKING:  # both cost imports that listing jobs does not need
    from windlass.client.pack import Project, SingleFile
    from windlass.client.terminal import Terminal

JOBS = "/api/v1/jobs"
VOLUMES = "/api/v1/volumes"
_PRICES = "/api/v1/prices"
SECRETS = "/api/v1/secrets"
REGISTRIES = "/api/v1/registries"
BEGINNING = "0"
"""The resume point before the first line of the first attempt."""
_ENCODER = msgspec.json.Encoder(decimal_format="number")
"""A document read from YAML holds decimals; they go out as the numbers they were written as."""
Applied = Literal["created", "unchanged"]


class Client(Governing, Pooling):
    """Not for use from several threads at once; `another()` gives each its own."""

    def __init__(self, connection: Connection, *, transport: Transport | None = None) -> None:
        self.connection = connection
        self._transport = transport or Transport(connection)

    def another(self) -> "Client":
        return Client(self.connection, transport=self._transport.another())

    def close(self) -> None:
        self._transport.close()

    def check_log_options(self, *, stream: str | None, has_times: bool) -> None:
        """Invalid where its logs do not tell that."""

    def command(self, words: str, *, program: str = "windlass") -> str:
        """What a person types to say this to the same home."""
        return f"{program} {words}"

    def first_command(self) -> str:
        """What makes a first job there."""
        return self.command("run -- echo hello")

    # jobs

    def create(self, manifest: Document, *, key: str | None = None) -> Manifest:
        """Safe to repeat after a lost answer: every create carries a key."""
        return cast(Manifest, self._post(JOBS, manifest, headers={"Idempotency-Key": key or _key()}))

    def create_for_upload(self, manifest: Document) -> Manifest:
        """Held until it is released, because its files come first."""
        return self.create({**manifest, "spec": {**manifest["spec"], "suspend": True}})

    def apply(self, manifest: Document) -> tuple[Manifest, Applied]:
        name = str(manifest["metadata"]["name"])
        answer = self._transport.call("PUT", _job(name), body=_ENCODER.encode(manifest))
        return answer.json(), "created" if answer.status == 201 else "unchanged"

    def job(self, ref: str) -> Manifest:
        return cast(Manifest, self._get(_job(ref)))

    def unseen(self, ref: str) -> str:
        """Why nobody has looked at the job yet, where that can be; a server has, when it took it."""
        return ""

    def page(self, **query: str | int | bool | list[str] | None) -> Page:
        """`state`, `kind`, `label`, `name`, `limit`, `cursor`, `order`, `active`: as the API names them."""
        return cast(Page, self._get(JOBS, query))

    def jobs(self, *, limit: int | None = None, **query: str | int | bool | list[str] | None) -> Iterator[Manifest]:
        """Across pages, up to `limit` in all."""
        left, cursor = limit, None
        while left is None or left > 0:
            page = self.page(**query, limit=min(left or 1000, 1000), cursor=cursor)
            yield from page["items"]
            left = None if left is None else left - len(page["items"])
            cursor = page["next"]
            if not cursor:
                return

    def cancel(self, ref: str) -> Manifest:
        return cast(Manifest, self._post(f"{_job(ref)}/cancel"))

    def release(self, ref: str) -> Manifest:
        return cast(Manifest, self._post(f"{_job(ref)}/release"))

    def delete(self, ref: str, *, volume: bool = False) -> Deleted | None:
        """None: where it is not known whether it is gone already."""
        return cast(Deleted, self._transport.call("DELETE", _job(ref), query={"volume": volume}).json())

    # what happens to them

    def logs(
        self,
        ref: str,
        *,
        follow: bool = False,
        attempt: int | None = None,
        stream: str | None = None,
        tail: int | None = None,
        after: str = "",
    ) -> Followed[LogLine]:
        """Of the newest attempt and, when followed, of those to come; `after=BEGINNING` starts with the first."""
        query: Query = {"follow": follow, "attempt": attempt, "stream": stream, "tail": tail}
        path = f"{_job(ref)}/logs"
        return Followed(EventStream(self._transport.another(), path, query, last_id=after, is_over_at_eof=not follow))

    def happenings(self, ref: str) -> list[Happening]:
        return cast(list[Happening], self._get(f"{_job(ref)}/events")["items"])

    def follow_happenings(self, ref: str) -> Followed[Happening]:
        """From the first on, until the job is over."""
        path, query = f"{_job(ref)}/events", {"follow": True}
        return Followed(EventStream(self._transport.another(), path, query, is_over_at_eof=True))

    def why(self, ref: str) -> Why:
        return cast(Why, self._get(f"{_job(ref)}/why"))

    def plan(self, manifests: list[Document]) -> Plan:
        """What they would do; nothing is done."""
        return cast(Plan, self._post("/api/v1/plan", {"items": manifests}))

    def recorded(self, *, job: str = "", after: int = 0, last: int | None = None, everyone: bool = False) -> EventPage:
        """A page of what happened, oldest first; `next` is the `after` of the following one."""
        query: Query = {"job": job or None, "after": after, "last": last, "everyone": everyone}
        return cast(EventPage, self._get("/api/v1/events/recorded", query))

    def follow_recorded(self, *, job: str = "", after: int = 0, everyone: bool = False) -> Followed[Happening]:
        """Whatever happens after that revision, without an end."""
        query: Query = {"follow": True, "job": job or None, "after": after, "everyone": everyone}
        return Followed(EventStream(self._transport.another(), "/api/v1/events/recorded", query))

    def changes(self, *, after: int | None = None) -> Iterator[Manifest | None]:
        """Every change of every job of the tenant. None means that some were missed: list again."""
        query: Query = {"follow": True, "after": after}
        for event in EventStream(self._transport.another(), "/api/v1/events", query):
            yield None if event.name == "reset" else cast(Manifest, msgspec.json.decode(event.data))

    # files

    def upload(self, ref: str, body: "Project | SingleFile", *, path: str = "", digest: str) -> Upload:
        """Into the volume of a suspended job. The server checks the digest of what it got; we check what it made of it.

        An archive is stored in a form of the server's own, so of that the number of entries is what can be compared.
        """
        from windlass.client.pack import Project, content_digest

        is_archive = isinstance(body, Project)
        headers = {"Content-Type": body.content_type, "Content-Digest": content_digest(digest)}
        query: Query = {"path": path, "unpack": is_archive}
        answer = self._transport.call("PUT", f"{_job(ref)}/artifacts", query=query, body=body, headers=headers)
        stored = cast(Upload, answer.json())
        is_same = stored["entries"] == len(body.entries) if isinstance(body, Project) else digest in stored["digest"]
        if not is_same:
            raise Conflict("the server stored something else than was sent", code="digest-mismatch", hint="try again")
        return stored

    @contextmanager
    def download(self, ref: str, path: str = "", *, form: Literal["tar", "file"] = "tar") -> Iterator[Stream]:
        """The stream's bytes; a connection that breaks off on the way is Unavailable, never a short file."""
        query: Query = {"path": path, "format": form}
        try:
            with self._transport.stream(f"{_job(ref)}/artifacts", query=query, headers={"Accept": "*/*"}) as stream:
                yield stream
        except BrokenPipeError:
            raise  # of where the caller writes it to: a connection that is read from has no such error
        except (ConnectionError, TimeoutError) as exc:
            raise Unavailable("the download broke off", code="download-broken", hint="try it again") from exc

    def copy_file(self, job: str, url: str, target_path: str) -> CopiedFile:
        body = {"url": url, "targetPath": target_path}
        path = f"{VOLUMES}/{segment(job)}/copy-file"
        return cast(CopiedFile, self._post(path, body, headers={"Idempotency-Key": _key()}))

    # money

    def costs(self, **query: str | int | bool | list[str] | None) -> Document:
        """`by`, `since`, `until`, `tenant`, `all`, `limit`: as the API names them."""
        return cast(Document, self._get("/api/v1/cost", query))

    def savings(self, **query: str | int | bool | None) -> Document:
        """`days`, `tenant`, `all`."""
        return cast(Document, self._get("/api/v1/cost-optimization/reports", query))

    def prices(self) -> Document:
        return cast(Document, self._get(_PRICES))

    def set_prices(self, prices: Mapping[str, Any]) -> Document:
        """All of them at once."""
        return cast(Document, self._put(_PRICES, prices))

    def bursts(self, tenant: str) -> Document:
        return cast(Document, self._get(f"{_tenant(tenant)}/burst"))

    def open_burst(self, tenant: str) -> Document:
        """Not repeated by itself: the second of two would be a conflict."""
        return cast(Document, self._transport.call("POST", f"{_tenant(tenant)}/burst", body=b"").json())

    def end_burst(self, tenant: str) -> Document:
        return cast(Document, self._transport.call("DELETE", f"{_tenant(tenant)}/burst", may_repeat=False).json())

    def budget(self, tenant: str) -> Document:
        return cast(Document, self._get(f"{_tenant(tenant)}/budget"))

    # volumes, nodes, the server itself

    def volumes(self) -> list[Volume]:
        return cast(list[Volume], self._get(VOLUMES)["items"])

    def delete_volume(self, name: str) -> None:
        self._transport.call("DELETE", f"{VOLUMES}/{segment(name)}")

    def cleanup(self) -> Cleanup:
        return cast(Cleanup, self._post(f"{VOLUMES}/cleanup", {"verbose": True}))

    def secrets(self) -> list[Secret]:
        return cast(list[Secret], self._get(SECRETS)["items"])

    def set_secret(self, name: str, data: Mapping[str, bytes]) -> Secret:
        return cast(Secret, self._put(f"{SECRETS}/{segment(name)}", {"data": dict(data)}))

    def remove_secret(self, name: str) -> Secret:
        return cast(Secret, self._transport.call("DELETE", f"{SECRETS}/{segment(name)}").json())

    def rotate_key(self) -> Rotation:
        return cast(Rotation, self._post(f"{SECRETS}/rotate-key"))

    def logins(self) -> list[Login]:
        return cast(list[Login], self._get(REGISTRIES)["items"])

    def log_in(self, registry: str, username: str, password: str) -> Login:
        body = {"username": username, "password": password}
        return cast(Login, self._put(f"{REGISTRIES}/{segment(registry)}", body))

    def log_out(self, registry: str) -> Login:
        return cast(Login, self._transport.call("DELETE", f"{REGISTRIES}/{segment(registry)}").json())

    def queues(self, *, tenant: str | None = None) -> Document:
        return cast(Document, self._get("/api/v1/queues/status", {"tenant": tenant}))

    def fairness(self, *, window: int | None = None, tenant: str | None = None) -> Document:
        """`window` in seconds; none: since the server started."""
        return cast(Document, self._get("/api/v1/fairness", {"window": window, "tenant": tenant}))

    def nodes(self) -> list[Node]:
        return cast(list[Node], self._get("/api/v1/nodes")["items"])

    def version(self) -> Document:
        return cast(Document, self._get("/api/v1/version"))

    def whoami(self) -> Document:
        return cast(Document, self._get("/api/v1/whoami"))

    # terminals

    def attach(self, ref: str) -> "AbstractContextManager[Terminal]":
        return self._terminal(f"{_job(ref)}/attach", {})

    def execute(self, ref: str, command: Iterable[str], *, tty: bool) -> "AbstractContextManager[Terminal]":
        return self._terminal(f"{_job(ref)}/exec", {"command": list(command), "tty": "1" if tty else None})

    def debug(
        self, ref: str, *, image: str | None, keep: bool, name: str | None, command: Iterable[str]
    ) -> "AbstractContextManager[Terminal]":
        query: Query = {"image": image, "keep": "1" if keep else None, "name": name, "command": list(command)}
        return self._terminal(f"{_job(ref)}/debug", query)

    def _terminal(self, path: str, query: Query) -> "AbstractContextManager[Terminal]":
        from windlass.client.terminal import connect

        return connect(self.connection, self._transport.target(path, query))

    def _get(self, path: str, query: Query | None = None) -> Any:
        return self._transport.call("GET", path, query=query).json()

    def _put(self, path: str, body: Mapping[str, Any]) -> Any:
        """Bytes go out as base64."""
        return self._transport.call("PUT", path, body=_ENCODER.encode(body)).json()

    def _post(self, path: str, body: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None) -> Any:
        """Every POST of ours may be repeated: creates carry a key, the other verbs name a state to be reached."""
        content = _ENCODER.encode(body) if body is not None else b""
        answer: Answer = self._transport.call("POST", path, body=content, headers=headers, may_repeat=True)
        return answer.json() if answer.body else {}


def _job(ref: str) -> str:
    return f"{JOBS}/{segment(ref)}"


def _tenant(name: str) -> str:
    return f"/api/v1/tenants/{segment(name)}"


def _key() -> str:
    return os.urandom(16).hex()
