"""The public keys of one issuer: fetched when first needed, again when they age or a token names one that is not among them.

Two things bound the fetching: a floor between two tries, so that made-up key names cost the issuer nothing, and one try at a time.
While the issuer is away the keys it had go on counting; without any, its tokens cannot be judged, which is not the same as bad.
"""

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import anyio
import msgspec
import structlog
from joserfc import jwk
from joserfc.errors import JoseError, SecurityWarning
from msgspec import Struct

from windlass.api.claims import token_invalid
from windlass.core.errors import Unavailable, WindlassError
from windlass.ports.fetcher import Fetcher, FetchFailed
from windlass.wire.identity import OidcIssuer

FLOOR_SECONDS: Final = 30.0
"""Between two tries to fetch, whatever asks for it."""
FRESH_SECONDS: Final = 600.0
_PATIENCE_SECONDS: Final = 10.0
_PATIENCE_WITH_KEYS_SECONDS: Final = 5.0
"""Who has keys that still count need not keep its callers waiting for better ones."""
_BYTES_MAX: Final = 256 * 1024
_KEYS_MAX: Final = 64
_RSA_BITS: Final = range(2048, 8193)
_DISCOVERY: Final = "/.well-known/openid-configuration"
_ED25519: Final = ("OKP", "Ed25519")
_FITS: Final = {"RS256": ("RSA", None), "ES256": ("EC", "P-256"), "EdDSA": _ED25519, "Ed25519": _ED25519}
"""The one kind of key that each algorithm takes."""
_KINDS: Final[dict[str, Any]] = {"RSA": jwk.RSAKey, "EC": jwk.ECKey, "OKP": jwk.OKPKey}

Key: TypeAlias = jwk.RSAKey | jwk.ECKey | jwk.OKPKey

_log = structlog.get_logger()


class _Published(Struct):
    keys: list[dict[str, Any]]


class _Discovered(Struct):
    issuer: str
    jwks_uri: str


class IssuerKeys:
    def __init__(
        self, settings: OidcIssuer, fetcher: Fetcher, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._fetcher = fetcher
        self._monotonic = monotonic
        self._keys: tuple[Key, ...] = ()
        self._fetched_at = float("-inf")
        self._tried_at = float("-inf")
        self._one_at_a_time = anyio.Lock()

    async def find(self, kid: str | None, algorithm: str) -> Key:
        """The key that a token with this head must hold under."""
        fits = self._fit(algorithm)
        if self._monotonic() - self._fetched_at > FRESH_SECONDS:
            await self._refresh()
        key = self._pick(kid, algorithm, fits)
        if key is None:
            await self._refresh()  # the issuer may have changed its keys a moment ago
            key = self._pick(kid, algorithm, fits)
        if key is not None:
            return key
        if not self._keys:
            raise Unavailable(
                f"the keys of {self._settings.issuer} cannot be had, so its tokens cannot be checked",
                code="issuer-unavailable",
                retry_after_seconds=int(FLOOR_SECONDS),
            )
        raise token_invalid()

    def _fit(self, algorithm: str) -> tuple[str, str | None]:
        allowed = {*self._settings.algorithms, *(["Ed25519"] if "EdDSA" in self._settings.algorithms else [])}
        if algorithm not in allowed:
            raise token_invalid()
        return _FITS[algorithm]

    def _pick(self, kid: str | None, algorithm: str, fits: tuple[str, str | None]) -> Key | None:
        """By name; a token that names none is taken only where there is no choice."""
        suiting = [key for key in self._keys if _suits(key, algorithm, fits) and kid in (None, key.kid)]
        return suiting[0] if suiting and (kid is not None or len(suiting) == 1) else None

    async def _refresh(self) -> None:
        before = self._tried_at
        async with self._one_at_a_time:
            # Whoever waited for another's try has its outcome; nobody tries again within the floor.
            if self._tried_at != before or self._monotonic() - self._tried_at < FLOOR_SECONDS:
                return
            try:
                with anyio.fail_after(_PATIENCE_WITH_KEYS_SECONDS if self._keys else _PATIENCE_SECONDS):
                    self._keys = await self._fetch()
                self._fetched_at = self._monotonic()
            except (WindlassError, TimeoutError) as error:
                _log.warning("issuer.unavailable", issuer=self._settings.issuer, error=str(error))
            finally:
                self._tried_at = self._monotonic()

    async def _fetch(self) -> tuple[Key, ...]:
        address = self._settings.jwks or await self._discover()
        published = await self._read(address, _Published)
        keys = tuple(_readable(published.keys[:_KEYS_MAX]))
        if not keys:
            raise FetchFailed("the issuer publishes no key that is taken here")
        return keys

    async def _discover(self) -> str:
        """Where the keys are, by a document that must speak for this very issuer and must not lead off TLS."""
        found: _Discovered = await self._read(self._settings.issuer.rstrip("/") + _DISCOVERY, _Discovered)
        if found.issuer != self._settings.issuer:
            raise FetchFailed("the document there is of another issuer")
        if self._settings.issuer.startswith("https:") and not found.jwks_uri.startswith("https:"):
            raise FetchFailed("the issuer's keys are not behind https")
        return found.jwks_uri

    async def _read(self, url: str, kind: Any) -> Any:
        body = bytearray()
        async with self._fetcher.get(url, bytes_max=_BYTES_MAX) as fetched:
            async for chunk in fetched.chunks():
                body += chunk
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise FetchFailed("what the issuer publishes is not what was expected") from None


def _readable(published: list[dict[str, Any]]) -> Iterator[Key]:
    """Secrets, keys for other uses, short keys and what we do not know are read over: one odd key must not hide the others."""
    for one in published:
        kind = _KINDS.get(str(one.get("kty")))
        if kind is None or one.get("use", "sig") != "sig":
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SecurityWarning)  # it warns of short keys; we refuse them below
                key = kind.import_key({name: value for name, value in one.items() if name != "d"})
        except (JoseError, ValueError, TypeError, KeyError, OverflowError):
            continue
        if not isinstance(key, jwk.RSAKey) or key.raw_value.key_size in _RSA_BITS:
            yield key


def _suits(key: Key, algorithm: str, fits: tuple[str, str | None]) -> bool:
    kind, curve = fits
    bound = key.get("alg")
    if key.key_type != kind or (curve is not None and key.get("crv") != curve):
        return False
    return bound is None or bound == algorithm or _FITS.get(str(bound)) == fits == _ED25519
