"""Terminals over WebSockets: attach to a job, run a command beside it, open a shell on its volume.

Binary frames carry bytes: input as it is; output with a first byte that tells 1 (stdout) from 2 (stderr). Text frames are JSON:
`{"resize": [rows, columns]}` and `{"eof": true}` from the client; last of all, `{"exit": code}` or `{"error": problem}` from us.
Who may not enter is refused before the upgrade, by status.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import anyio
import msgspec
import structlog
from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from starlette.datastructures import QueryParams

from windlass.api.context import Context, context_of, refresh, shut_out, writer_of
from windlass.api.problems import error_document, error_response, is_internal, note_refusal, request_id_of
from windlass.core.errors import Denied, Fault, Invalid, WindlassError
from windlass.core.model.views import JobView
from windlass.ports.runtime import Stream, Terminal
from windlass.wire.documents import read_json
from windlass.wire.faults import invalid
from windlass.wire.job import check_command
from windlass.wire.names import read_dns_label, read_image
from windlass.wire.problem import internal_problem

router = APIRouter(prefix="/api/v1/jobs")

Opening = Callable[[Context, JobView], AbstractAsyncContextManager[Terminal]]

_MARKS: Final = {Stream.STDOUT: b"\x01", Stream.STDERR: b"\x02"}
_SIDE_MAX: Final = 1000
_REF_MAX: Final = 63
_NORMAL: Final = 1000
_REFUSED: Final = 4000
_FAILED: Final = 1011

_log = structlog.get_logger()


@router.websocket("/{ref}/attach")
async def attach(websocket: WebSocket, ref: str) -> None:
    await _serve(websocket, ref, lambda query: lambda here, view: here.plane.terminals.attach(view))


@router.websocket("/{ref}/exec")
async def execute(websocket: WebSocket, ref: str) -> None:
    def prepare(query: QueryParams) -> Opening:
        command = _command(query)
        if not command:
            raise Invalid("there is nothing to run", faults=[Fault("command", "is required")])
        wants_terminal = _flag(query, "tty")
        return lambda here, view: here.plane.terminals.execute(view, command, wants_terminal=wants_terminal)

    await _serve(websocket, ref, prepare)


@router.websocket("/{ref}/debug")
async def debug(websocket: WebSocket, ref: str) -> None:
    def prepare(query: QueryParams) -> Opening:
        image, name = _checked(query, "image", read_image), _checked(query, "name", read_dns_label)
        command, keep = _command(query), _flag(query, "keep")
        return lambda here, view: here.plane.terminals.debug(view, image=image, command=command, keep=keep, name=name)

    await _serve(websocket, ref, prepare)


async def _serve(websocket: WebSocket, ref: str, prepare: Callable[[QueryParams], Opening]) -> None:
    here, request_id = context_of(websocket), request_id_of(websocket)
    try:
        _check_origin(websocket)
        caller = await writer_of(websocket)
    except WindlassError as error:
        note_refusal(websocket, error)
        await _deny(websocket, error, request_id)
        return
    await websocket.accept()
    try:
        opening = prepare(websocket.query_params)
        await refresh(websocket)
        view = await here.plane.read_model.find_job(caller.tenant, ref[:_REF_MAX])
        with here.seats.taken():
            await here.plane.audit.record(view.job)
            async with opening(here, view) as terminal:
                await _bridge(here, websocket, terminal)
    except WebSocketDisconnect:
        return
    except Exception as error:
        if isinstance(error, WindlassError) and not is_internal(error):
            note_refusal(websocket, error)
            await _end(websocket, {"error": error_document(error, request_id)}, _REFUSED)
            return
        _log.exception("terminal failed", request_id=request_id)
        await _end(websocket, {"error": internal_problem(request_id)}, _FAILED)


async def _bridge(here: Context, websocket: WebSocket, terminal: Terminal) -> None:
    """Both directions until the output ends, the client goes, or its token holds no longer."""
    client = _Client(here, websocket, terminal)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.read, tasks.cancel_scope)
        await client.write()
        tasks.cancel_scope.cancel()
    if client.error is not None:
        raise client.error
    if client.is_over:
        await _end(websocket, {"exit": client.exit_code}, _NORMAL)


class _Client:
    """What comes from the other side. An error ends the session; it is kept, for a task group would wrap it."""

    def __init__(self, here: Context, websocket: WebSocket, terminal: Terminal) -> None:
        self._here = here
        self._websocket = websocket
        self._terminal = terminal
        self.error: WindlassError | None = None
        self.exit_code: int | None = None
        self.is_over = False
        """The output has ended by itself."""

    async def write(self) -> None:
        try:
            await self._pass_on()
        except WindlassError as error:
            self.error = error

    async def _pass_on(self) -> None:
        async for stream, data in self._terminal.output():
            self.error = self.error or shut_out(self._here, self._websocket.scope)
            if self.error is not None:
                return
            await self._websocket.send_bytes(_MARKS[stream] + data)
        self.exit_code = await self._terminal.exit_code()
        self.is_over = True

    async def read(self, session: anyio.CancelScope) -> None:
        try:
            while (message := await self._websocket.receive())["type"] != "websocket.disconnect":
                self.error = shut_out(self._here, self._websocket.scope)
                if self.error is not None:
                    break
                await self._take(message)
        except WindlassError as error:
            self.error = error
        session.cancel()

    async def _take(self, message: Any) -> None:
        data = message.get("bytes")
        if data is not None:
            await self._terminal.send(data)
            return
        command = read_json((message.get("text") or "").encode())
        if isinstance(command, dict) and command.keys() == {"eof"} and command["eof"] is True:
            await self._terminal.close_input()
        elif isinstance(command, dict) and command.keys() == {"resize"}:
            rows, columns = _size(command["resize"])
            await self._terminal.resize(rows=rows, columns=columns)
        else:
            raise Invalid("a text frame must be a resize or an eof", code="frame")


def _size(value: object) -> tuple[int, int]:
    match value:
        case [int(rows), int(columns)] if 1 <= rows <= _SIDE_MAX and 1 <= columns <= _SIDE_MAX:
            return rows, columns
    raise Invalid(f"resize takes two numbers from 1 to {_SIDE_MAX}", code="frame")


async def _deny(websocket: WebSocket, error: WindlassError, request_id: str) -> None:
    if "websocket.http.response" in websocket.scope.get("extensions", {}):
        await websocket.send_denial_response(error_response(error, request_id))
    else:
        await websocket.close(1008)


async def _end(websocket: WebSocket, last: dict[str, Any], code: int) -> None:
    try:
        await websocket.send_text(msgspec.json.encode(last).decode())
        await websocket.close(code)
    except (WebSocketDisconnect, RuntimeError):
        return  # the client was faster


def _check_origin(websocket: WebSocket) -> None:
    """Browsers say where a page came from; ours come from us. Other programs send no Origin."""
    origin = websocket.headers.get("origin")
    if origin is not None and origin.partition("://")[2] != websocket.headers.get("host"):
        raise Denied("pages of other sites may not open terminals", code="origin")


def _command(query: QueryParams) -> tuple[str, ...]:
    try:
        return tuple(check_command(query.getlist("command")))
    except ValueError as exc:
        raise invalid("the request", [Fault("command", str(exc))]) from None


def _flag(query: QueryParams, name: str) -> bool:
    text = query.get(name, "0")
    if text not in ("0", "1", "true", "false"):
        raise invalid("the request", [Fault(name, "expected 1 or 0")])
    return text in ("1", "true")


def _checked(query: QueryParams, name: str, check: Callable[[str], str]) -> str:
    text = query.get(name, "")
    if not text:
        return ""
    try:
        return check(text)
    except ValueError as exc:
        raise invalid("the request", [Fault(name, str(exc))]) from None
