"""The application: every route, in the order they are tried, inside the envelope."""

from collections.abc import Callable, Collection
from functools import partial
from typing import Final

from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp

from windlass.api import (
    artifacts,
    audit,
    events,
    health,
    jobs,
    logs,
    money,
    openapi,
    page,
    plan,
    pools,
    problems,
    queues,
    registries,
    secrets,
    tenants,
    terminals,
    tokens,
    volumes,
    why,
)
from windlass.api.auth import Authenticator
from windlass.api.context import ApiLimits, Context
from windlass.api.envelope import Envelope
from windlass.api.hot import HotApp
from windlass.api.rates import Rates
from windlass.api.seats import Crowd, Seats
from windlass.api.submit import submit_bulk, submit_job
from windlass.control.plane import ControlPlane
from windlass.observe.metrics import ApiMetrics
from windlass.ports.fetcher import Fetcher
from windlass.ports.signer import Signer
from windlass.wire import schema
from windlass.wire.accepted import AcceptedAnswers
from windlass.wire.manifests import Manifests
from windlass.wire.pool import PoolDocument
from windlass.wire.pooling import ScaleRequest
from windlass.wire.secret import LoginRequest, SecretRequest
from windlass.wire.tenancy import TokenRequest
from windlass.wire.tenant import STARTS_WITH, QuotaDocument, TenantDocument

_ROUTERS: Final = (
    jobs.router,
    logs.router,
    events.router,
    artifacts.router,
    volumes.router,
    secrets.router,
    registries.router,
    terminals.router,
    tenants.router,
    tokens.router,
    pools.router,
    audit.router,
    money.router,
    queues.router,
    health.router,
    why.router,
    plan.router,
    health.open_router,
)
_BODIES: Final = (
    volumes.CopyFileRequest,
    volumes.CleanupRequest,
    money.BurstRequest,
    TenantDocument,
    PoolDocument,
    ScaleRequest,
    TokenRequest,
    SecretRequest,
    LoginRequest,
    schema.PlanRequest,
)
"""Read by hand, so that the description of the API has to be told of them."""


def create_app(
    plane: ControlPlane,
    auth: Authenticator,
    *,
    fetcher: Fetcher,
    signer: Signer,
    version: str,
    registry: CollectorRegistry | None = None,
    limits: ApiLimits | None = None,
    hosts: Collection[str] = (),
    rates: Rates | None = None,
    has_open_metrics: bool = False,
    preset_image: str = "",
    starts_with: QuotaDocument = STARTS_WITH,
) -> FastAPI:
    """`hosts` are the names this server goes by; empty takes any. `has_open_metrics` answers /metrics without a token: where only
    this machine can ask. `preset_image` is what the inference preset runs by default, `starts_with` what is left out of a quota."""
    limits = limits or ApiLimits()
    metrics = ApiMetrics(registry if registry is not None else CollectorRegistry(), version=version)
    app = _bare(version)
    app.context = Context(
        plane=plane,
        auth=auth,
        fetcher=fetcher,
        metrics=metrics,
        limits=limits,
        seats=Seats(limits.streams_max),
        manifests=Manifests(
            runtime=plane.runtime_kind,
            preset_image=preset_image,
            pools=plane.pool_runtimes,
            may_reach=fetcher.may_reach,
        ),
        accepted=AcceptedAnswers(plane.clock.wall),
        rates=rates or Rates(),
        signer=signer,
        has_open_metrics=has_open_metrics,
        starts_with=starts_with,
        version=version,
    )
    _open_doors(app)
    _wrap(app, _envelope(app.context, hosts))
    return app


def _bare(version: str) -> HotApp:
    return HotApp(
        title="Windlass",
        version=version,
        description="One control plane for containers: fair, explained, crash-safe.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        separate_input_output_schemas=False,
    )


def _open_doors(app: HotApp) -> None:
    """The hot ones first, then what the framework serves, the page last; and what is said when none is the right one."""
    app.open_door("/api/v1/jobs", submit_job)
    app.open_door("/api/v1/jobs/bulk", submit_bulk)
    for router in _ROUTERS:
        app.include_router(router)
    app.router.routes.extend(page.routes())
    problems.install(app)
    openapi.install(app, bodies=_BODIES)


def _envelope(context: Context, hosts: Collection[str]) -> Callable[[ASGIApp], Envelope]:
    plane = context.plane
    return partial(
        Envelope,
        metrics=context.metrics,
        make_id=plane.ids.uuid7,
        revision=lambda: plane.read_model.revision,
        crowd=Crowd(context.limits.requests_max),
        hosts=hosts,
    )


def _wrap(app: HotApp, envelope: Callable[[ASGIApp], Envelope]) -> None:
    """Around the framework, and around the hot doors that stand before it."""
    app.add_middleware(envelope)
    app.wrap_doors(envelope)
