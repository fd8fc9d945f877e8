"""The plain live page: jobs as they change and the log of the one selected. Files of the package, no build step, nothing from
elsewhere.

The page is public and empty; what it shows it asks for with a token, which arrives in the fragment of the link that
`windlass up` prints and so never reaches a server's log.
"""

from hashlib import sha256
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from windlass.api.routes import NamedRoute
from windlass.core.errors import NotFound

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_FILES: Final = {
    "page.html": "text/html; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


def routes() -> list[NamedRoute]:
    """Read once, served from memory."""
    pages = {name: _Page(name, kind) for name, kind in _FILES.items()}

    async def page(request: Request) -> Response:
        return pages["page.html"].answer(request)

    async def static(request: Request) -> Response:
        found = pages.get(request.path_params["name"])
        if found is None:
            raise NotFound("there is no such file")
        return found.answer(request)

    return [NamedRoute("/", page, methods=["GET"]), NamedRoute("/static/{name}", static, methods=["GET"])]


class _Page:
    def __init__(self, name: str, kind: str) -> None:
        self._body = (files("windlass.api") / "static" / name).read_bytes()
        self._kind = kind
        self._tag = f'"{sha256(self._body).hexdigest()[:32]}"'

    def answer(self, request: Request) -> Response:
        headers = {**_HEADERS, "ETag": self._tag}
        if request.headers.get("if-none-match") == self._tag:
            return Response(status_code=304, headers=headers)
        return Response(self._body, headers=headers, media_type=self._kind)
