"""Whether a tenant may use an image that is here already: its registry is asked, in the tenant's own name.

A pull is its own check. But an engine keeps what it pulled for everybody, so that an image one tenant had to log in for would be
open to all others of the node. Of a guarded registry, whoever did not pull the image asks for its manifest first, with its own
login or without one; the outcome holds for a short while.
"""

import base64
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from windlass.adapters.runtime.docker.engine import Engine
from windlass.adapters.runtime.docker.pulling import DENIED, UNREACHABLE, unavailable
from windlass.core.distribution.reference import DEFAULT_DOMAIN, BadReference, Reference, parse_reference, registry_of
from windlass.core.errors import Invalid, NotFound, Unavailable
from windlass.core.model.ids import Millis
from windlass.core.model.secret import Credentials
from windlass.ports.clock import Clock
from windlass.ports.runtime import ENGINE_UNAVAILABLE, ImageAccess, ImageUnavailable

HOLDS: Final = Millis(60_000)
"""How long a registry's word is taken: who lost its access keeps it here for this long at the most."""
_OUTCOMES_MAX: Final = 4096
_LOCAL: Final = "localhost"
_HUB: Final = "https://index.docker.io/v1/"

_Question = tuple[str, int, str]
"""Tenant, version of its login (0: none), manifest."""


class Access:
    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._outcomes: dict[_Question, tuple[Millis, ImageUnavailable | None]] = {}

    async def check(self, image: str, record: Mapping[str, Any], access: ImageAccess) -> bool:
        """True: the registry lets the tenant read it. False: nobody can tell without a pull. ImageUnavailable: it does not."""
        manifest = _manifest(image, record)
        if manifest is None:
            return False
        question = access.tenant, access.credentials.version if access.credentials else 0, manifest
        known = self._outcomes.get(question)
        if known is None or known[0] <= self._clock.now():
            refusal, is_told = await self._ask(image, manifest, access.credentials)
            if not is_told:
                return False
            known = self._remember(question, refusal)
        if known[1] is not None:
            raise known[1]
        return True

    async def _ask(
        self, image: str, manifest: str, credentials: Credentials | None
    ) -> tuple[ImageUnavailable | None, bool]:
        """The refusal, if there is one, and whether the registry has said anything about the manifest at all."""
        try:
            await self._engine.call(
                "GET", f"/distribution/{manifest}/json", headers=registry_headers(image, credentials)
            )
        except (NotFound, Invalid, Unavailable) as exc:
            if exc.code == ENGINE_UNAVAILABLE:
                raise
            why = unavailable(image, exc.message)
            if why.code == UNREACHABLE:
                raise why from exc
            return why, why.code == DENIED
        return None, True

    def _remember(
        self, question: _Question, refusal: ImageUnavailable | None
    ) -> tuple[Millis, ImageUnavailable | None]:
        while len(self._outcomes) >= _OUTCOMES_MAX:
            del self._outcomes[next(iter(self._outcomes))]
        outcome = self._outcomes[question] = Millis(self._clock.now() + HOLDS), refusal
        return outcome


def registry_headers(image: str, credentials: Credentials | None) -> dict[str, str]:
    """The engine's way of taking a login along. To any registry but its own it is not given."""
    if credentials is None or credentials.registry != registry_of(image):
        return {}
    server = _HUB if credentials.registry == DEFAULT_DOMAIN else credentials.registry
    login = {"username": credentials.username, "password": credentials.password, "serveraddress": server}
    return {"X-Registry-Auth": base64.urlsafe_b64encode(msgspec.json.encode(login)).decode()}


def goes_by(image: str, record: Mapping[str, Any], *, is_podman: bool) -> bool:
    """Whether the engine found the image by its name. It takes ids too, and beginnings of ids: those name anybody's image."""
    wanted = parse_reference(image)
    if wanted.digest is not None:
        return any(_is_same(wanted, name, "digest", is_podman) for name in record.get("RepoDigests") or ())
    return any(_is_same(wanted, name, "tag", is_podman) for name in record.get("RepoTags") or ())


def _is_same(wanted: Reference, name: str, by: str, is_podman: bool) -> bool:
    try:
        found = parse_reference(name)
    except BadReference:  # `<none>:<none>`
        return False
    if getattr(found, by) != getattr(wanted, by):
        return False
    if found.repository == wanted.repository:
        return True
    # Podman calls what was made here localhost/name, and finds it by the name alone.
    is_short = is_podman and wanted.domain == DEFAULT_DOMAIN and found.domain == _LOCAL
    return is_short and found.path == wanted.path.removeprefix("library/")


def _manifest(image: str, record: Mapping[str, Any]) -> str | None:
    """What lies here of that repository, by its digest; None when it did not come from there."""
    wanted = parse_reference(image)
    for name in record.get("RepoDigests") or ():
        try:
            found = parse_reference(name)
        except BadReference:
            continue
        if found.repository == wanted.repository and found.digest is not None:
            return f"{found.repository}@{found.digest}"
    return None
