"""What the framework cannot know of our API: the answers every route may give, and the doors it does not serve itself."""

from typing import Any, Final, Literal

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from windlass.wire import schema
from windlass.wire.job import JobDocument
from windlass.wire.problem import MEDIA_TYPE

REF: Final = "#/components/schemas/{model}"
_UNSEEN: Final[tuple[type[BaseModel], ...]] = (
    schema.Problem,
    JobDocument,
    schema.JobManifest,
    schema.BulkRequest,
    schema.BulkAnswer,
)
"""Models of routes that are not the framework's own."""
_DESCRIPTIONS: Final = {
    400: "The request cannot be meant as it stands; `faults` names every field that is wrong.",
    401: "No token, or one that does not hold.",
    403: "The token may not do this.",
    404: "Absent, or another tenant's.",
    408: "The body did not come in time.",
    409: "The state of things does not allow it; `code` says why.",
    413: "More bytes than are read here.",
    415: "A media type that is not read here.",
    429: "A quota, rate or budget is used up; see Retry-After.",
    503: "A part we depend on does not answer; nothing was changed. See Retry-After.",
}


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: _refusal(status) for status in statuses}


def _refusal(status: int) -> dict[str, Any]:
    return {
        "description": _DESCRIPTIONS[status],
        "content": {MEDIA_TYPE: {"schema": {"$ref": REF.format(model="Problem")}}},
    }


REFUSALS: Final = refusals(400, 401, 403, 404, 408, 409, 413, 415, 429, 503)
"""What any route with a token may answer."""


def json_body(model: type[BaseModel], *, takes_yaml: bool = False, is_required: bool = True) -> dict[str, Any]:
    reference = {"schema": {"$ref": REF.format(model=model.__name__)}}
    content = {"application/json": reference}
    if takes_yaml:
        content["application/yaml"] = {"schema": {"type": "string"}}
    return {"requestBody": {"required": is_required, "content": content}}


def event_stream(*events: str, data: str | None = None) -> dict[str, Any]:
    """The content of a `text/event-stream` answer; `data` is JSON, and the words given say what is in it."""
    event = {
        "type": "object",
        "required": ["event", "data"],
        "properties": {
            "event": {"type": "string", "enum": [*events, "error"]},
            "id": {"type": "string", "pattern": "^[0-9]+$"},
            "data": {"type": "string", "contentMediaType": "application/json"}
            | ({"description": data} if data else {}),
        },
    }
    return {"text/event-stream": {"schema": event}}


def manifest_body() -> dict[str, Any]:
    return json_body(JobDocument, takes_yaml=True)


def install(app: FastAPI, *, bodies: tuple[type[BaseModel], ...]) -> None:
    """`bodies` are models that only request bodies use, which the framework never sees."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _describe(app, bodies)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _describe(app: FastAPI, bodies: tuple[type[BaseModel], ...]) -> dict[str, Any]:
    document = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        separate_input_output_schemas=False,
    )
    mode: Literal["validation"] = "validation"
    unseen = [(model, mode) for model in (*_UNSEEN, *bodies)]
    _, defined = models_json_schema(unseen, ref_template=REF)
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for name, definition in defined["$defs"].items():
        schemas.setdefault(name, definition)
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    document["components"]["securitySchemes"] = {
        "token": {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "JWT",
            "description": "Ours (Ed25519, audience windlass), or of an OIDC issuer that the settings name.",
        }
    }
    paths = document["paths"]
    paths.setdefault("/api/v1/jobs", {})["post"] = _submit()
    paths["/api/v1/jobs/bulk"] = {"post": _submit_bulk()}
    for path, item in paths.items():
        for operation in item.values():
            _complete(path, operation)
    return document


def _complete(path: str, operation: dict[str, Any]) -> None:
    """422 never happens here; the token and the revision are the same everywhere."""
    operation["responses"].pop("422", None)
    if not path.startswith("/api/v1"):
        return
    operation["security"] = [{"token": []}]
    for status, response in operation["responses"].items():
        response.setdefault("headers", {})["Windlass-Revision"] = {
            "description": "Send it back to read your own writes.",
            "schema": {"type": "string", "pattern": "^[0-9]+$"},
        }
        if status in ("429", "503"):
            response["headers"]["Retry-After"] = {"schema": {"type": "string", "pattern": "^[0-9]+$"}}


_KEY: Final[dict[str, Any]] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Same key and same body give the first answer again; same key and another body give 409.",
    "schema": {"type": "string", "pattern": "^[!-~]{1,200}$"},
}


def _submit() -> dict[str, Any]:
    created = {
        "description": "Accepted and durable.",
        "content": {"application/json": {"schema": {"$ref": REF.format(model="JobManifest")}}},
        "headers": {"Location": {"schema": {"type": "string"}}},
    }
    return {
        "tags": ["jobs"],
        "summary": "Submit Job",
        "operationId": "submit_job",
        "parameters": [_KEY],
        **manifest_body(),
        "responses": _responses(created),
    }


def _submit_bulk() -> dict[str, Any]:
    created = {
        "description": "All accepted and durable.",
        "content": {"application/json": {"schema": {"$ref": REF.format(model="BulkAnswer")}}},
    }
    return {
        "tags": ["jobs"],
        "summary": "Submit many jobs, all or none",
        "operationId": "submit_bulk",
        "parameters": [_KEY],
        **json_body(schema.BulkRequest),
        "responses": _responses(created),
    }


def _responses(created: dict[str, Any]) -> dict[str, Any]:
    return {"201": created, **{str(status): _refusal(int(status)) for status in REFUSALS}}
