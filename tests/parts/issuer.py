"""A real OIDC issuer on loopback: it publishes keys, signs, rotates them, falls over and lies, as a test wants it to."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from aiohttp import web
from joserfc import jwk, jwt

ADDRESS = "127.0.0.1"
DISCOVERY = "/.well-known/openid-configuration"

Key = jwk.RSAKey | jwk.ECKey | jwk.OKPKey
ALGORITHMS = {"RSA": "RS256", "EC": "ES256", "OKP": "EdDSA"}


@cache
def rsa_key(name: str, bits: int = 2048) -> jwk.RSAKey:
    """Made once for each name: they are slow to make."""
    return jwk.RSAKey.generate_key(bits, {"kid": name, "use": "sig"})


class LoopbackIssuer:
    def __init__(self) -> None:
        self.port = 0
        self.keys: list[Key] = [rsa_key("first")]
        """Published; the last one signs."""
        self.fetches: list[str] = []
        self.is_down = False
        self.lies: dict[str, Any] = {}
        """Path → what is answered in place of the truth: a document, bytes, or a whole response."""

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.port}"

    def sign(self, *, key: Key | None = None, header: dict[str, Any] | None = None, **changes: Any) -> str:
        """A good token, but for what is changed; `...` leaves a claim out."""
        key = key or self.keys[-1]
        alg = ALGORITHMS[key.key_type]
        full = {"alg": alg, "kid": key.kid, **(header or {})}
        claims = {**self.claims(), **changes}
        body = {name: value for name, value in claims.items() if value is not ...}
        return jwt.encode(full, body, key, algorithms=[full["alg"]])

    def claims(self) -> dict[str, Any]:
        now = int(time.time())
        return {
            "iss": self.url, "aud": ["windlass", "others"], "sub": "ada", "tenant": "other", "roles": ["member", "staff"],
            "jti": "j-1", "iat": now, "exp": now + 600,
        }  # fmt: skip

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.fetches.append(request.path)
        if self.is_down:
            raise web.HTTPServiceUnavailable
        lie = self.lies.get(request.path)
        if isinstance(lie, bytes):
            return web.Response(body=lie)
        if isinstance(lie, str):
            raise web.HTTPFound(lie)
        if lie is not None:
            return web.json_response(lie)
        if request.path == DISCOVERY:
            return web.json_response({"issuer": self.url, "jwks_uri": f"{self.url}/keys"})
        return web.json_response({"keys": [key.as_dict(private=False) for key in self.keys]})


@asynccontextmanager
async def loopback_issuer() -> AsyncIterator[LoopbackIssuer]:
    issuer = LoopbackIssuer()
    app = web.Application()
    app.router.add_get("/{rest:.*}", issuer.answer)
    runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, ADDRESS, 0).start()
        issuer.port = runner.addresses[0][1]
        yield issuer
    finally:
        await runner.cleanup()
