"""The HTTP application of a local server: keys, issuers, fetcher and limits put together from the settings."""

from typing import TYPE_CHECKING

from fastapi import FastAPI

from windlass import __version__
from windlass.adapters.fetcher.http import HttpFetcher, Patience
from windlass.adapters.keys.directory import KeyDirectory
from windlass.api.app import create_app
from windlass.api.auth import Authenticator
from windlass.api.issuers import Issuer
from windlass.api.rates import Rates
from windlass.boot.installation import Installation
from windlass.boot.settings import Settings
from windlass.control.plane import ControlPlane
from windlass.core.errors import WindlassError
from windlass.core.model.ids import LOCAL_TENANT
from windlass.core.model.tenant import RateLimit
from windlass.core.model.token import ROLE_ADMIN, IssuedToken
from windlass.core.world.tokens import note_token
from windlass.wire.tenant import STARTS_WITH

if TYPE_CHECKING:
    from windlass.boot.local import Local

_DAY_SECONDS = 86_400
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
_OWN_SUBJECT = "admin"
_ISSUER_PATIENCE = Patience(resolve=5, connect=5, idle=5, total=10)


async def make_application(local: "Local", settings: Settings, installation: Installation) -> tuple[FastAPI, str]:
    """The application, and a token of the machine's own user."""
    keys = KeyDirectory(installation.keys)
    auth = Authenticator(keys.public_keys(), issuers=_issuers(settings))
    token = await _own_token(local.plane, keys, auth, settings, installation)
    is_loopback = settings.host in {"127.0.0.1", "::1", "localhost"}
    app = create_app(
        local.plane,
        auth,
        fetcher=local.fetcher,
        signer=keys,
        version=__version__,
        # On loopback only its own names are answered to, so that a page elsewhere cannot rebind its name to us.
        hosts=_LOOPBACK_NAMES if is_loopback else (),
        rates=Rates(_rate(settings)),
        has_open_metrics=is_loopback,
        preset_image=settings.preset_image,
        starts_with=settings.quota or STARTS_WITH,
    )
    return app, token


def _issuers(settings: Settings) -> list[Issuer]:
    """By a fetcher of their own: where an issuer of this house may be reached, a job's webhook may not."""
    fetcher = HttpFetcher(allowed_networks=settings.oidc_networks, patience=_ISSUER_PATIENCE)
    return [Issuer(one, fetcher) for one in settings.oidc]


def _rate(settings: Settings) -> RateLimit | None:
    if settings.rate_per_second is None:
        return None
    return RateLimit(per_second=settings.rate_per_second, at_once=settings.rate_at_once)


async def _own_token(
    plane: ControlPlane, keys: KeyDirectory, auth: Authenticator, settings: Settings, installation: Installation
) -> str:
    """The one that was written before, while it holds and half its time is left; else a fresh one, put on record."""
    now = plane.clock.now()
    wall = int(plane.clock.wall(now))
    lifetime = settings.token_days * _DAY_SECONDS
    before = installation.token.read_text().strip() if installation.token.exists() else ""
    if before and await _holds(plane, auth, before, range(wall + lifetime // 2, wall + lifetime + 1)):
        return before
    token = IssuedToken(
        id=plane.ids.uuid7(),
        tenant=LOCAL_TENANT,
        subject=_OWN_SUBJECT,
        role=ROLE_ADMIN,
        issued_at=wall,
        expires_at=wall + lifetime,
    )
    note_token(plane.brain.world, token, now=now)
    plane.brain.committer.nudge()
    return keys.issue(
        subject=token.subject,
        tenant=token.tenant,
        roles=(token.role,),
        token_id=token.id,
        now=wall,
        lifetime_seconds=lifetime,
    )


async def _holds(plane: ControlPlane, auth: Authenticator, token: str, ends: range) -> bool:
    try:
        identity = await auth.identify([f"Bearer {token}"])
    except WindlassError:
        return False
    known = plane.tenants.token(LOCAL_TENANT, identity.token_id)
    is_ours = (identity.tenant, identity.subject, identity.is_admin) == (LOCAL_TENANT, _OWN_SUBJECT, True)
    return is_ours and known is not None and known.revoked_at is None and identity.expires_at in ends
