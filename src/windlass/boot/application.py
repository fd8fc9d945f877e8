"""The HTTP application of a local server: keys, fetcher and limits put together from the settings."""

from typing import TYPE_CHECKING

from fastapi import FastAPI

from windlass import __version__
from windlass.adapters.keys.directory import KeyDirectory
from windlass.api.app import create_app
from windlass.api.auth import Authenticator
from windlass.boot.installation import Installation
from windlass.boot.settings import Settings
from windlass.core.model.ids import LOCAL_TENANT
from windlass.core.model.token import ROLE_ADMIN

if TYPE_CHECKING:
    from windlass.boot.local import Local

_DAY_SECONDS = 86_400
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


def make_application(local: "Local", settings: Settings, installation: Installation) -> tuple[FastAPI, str]:
    """The application, and a fresh token of the machine's own user."""
    keys = KeyDirectory(installation.keys)
    clock = local.plane.clock
    token = keys.issue(
        subject="admin",
        tenant=LOCAL_TENANT,
        roles=(ROLE_ADMIN,),
        token_id=local.plane.ids.uuid7(),
        now=clock.wall(clock.now()),
        lifetime_seconds=settings.token_days * _DAY_SECONDS,
    )
    app = create_app(
        local.plane,
        Authenticator(keys.public_keys()),
        fetcher=local.fetcher,
        version=__version__,
        hosts=_hosts(settings),
        preset_image=settings.preset_image,
    )
    return app, token


def _hosts(settings: Settings) -> tuple[str, ...]:
    """On loopback only its own names are answered to, so that a page elsewhere cannot rebind its name to us."""
    return _LOOPBACK_NAMES if settings.host in {"127.0.0.1", "::1", "localhost"} else ()
