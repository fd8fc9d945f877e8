"""The operator's loops, under one parent: kopf's watches, the workers, the safety net, and the door for probes and metrics."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import anyio
import kopf
import structlog
from aiohttp import web
from lightkube.config.kubeconfig import SingleConfig
from prometheus_client import generate_latest

from windlass.client.kube.api import KubeApi
from windlass.core.errors import WindlassError
from windlass.core.model.ids import Millis
from windlass.operator.acting import Actor
from windlass.operator.clock import ClusterClock
from windlass.operator.gate import Gate
from windlass.operator.handlers import register
from windlass.operator.memory import Key, Memory, key_of
from windlass.operator.metrics import OperatorMetrics
from windlass.operator.queue import WorkQueue
from windlass.operator.reconcile import Reconciler
from windlass.operator.relisting import Relister
from windlass.operator.settings import OperatorSettings
from windlass.ports.failpoints import Failpoints
from windlass.wire.kube.names import OPERATOR

log = structlog.get_logger(__name__)


async def serve(
    config: SingleConfig,
    settings: OperatorSettings,
    *,
    host: str,
    port: int,
    service: Callable[[], Millis],
    failpoints: Failpoints,
) -> None:
    """Until it is cancelled or told by a signal. `service` is service time, which no jump of the wall clock moves."""
    metrics, memory, queue = OperatorMetrics(), Memory(), WorkQueue[Key]()
    registry = kopf.OperatorRegistry()
    register(registry, memory, queue, config)
    ready = asyncio.Event()  # kopf takes no other
    clock = ClusterClock(service)
    async with KubeApi(config, failpoints=failpoints) as api:
        actor = Actor(api, memory, settings.policy(), wall=clock.now, failpoints=failpoints, metrics=metrics)
        reconciler = Reconciler(
            api,
            memory,
            queue,
            actor,
            Gate(api, memory, settings.release_key),
            preset_image=settings.preset_image,
            patience_ms=settings.patience_ms,
            wall=clock.now,
            metrics=metrics,
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_door, host, port, metrics, memory, api, ready)
            await _compare(clock, api)
            relister = Relister(api, memory, settings.namespaces)
            tasks.start_soon(_safety_net, relister, reconciler, memory, queue, settings.resync_seconds)
            for _ in range(settings.workers):
                tasks.start_soon(queue.work, reconciler.look)
            await _watch(registry, settings, ready)
            tasks.cancel_scope.cancel()


async def _compare(clock: ClusterClock, api: KubeApi) -> None:
    """Until the API server answers: before that there is nothing to do anyway."""
    while True:
        try:
            return clock.compare(await api.date())
        except WindlassError as exc:
            log.warning("API server not asked for its time", code=exc.code, why=str(exc))
            await anyio.sleep(1)


async def _watch(registry: kopf.OperatorRegistry, settings: OperatorSettings, ready: asyncio.Event) -> None:
    """kopf runs in this task and ends with a signal; it keeps its own tasks."""
    await kopf.operator(
        registry=registry,
        clusterwide=not settings.namespaces,
        namespaces=settings.namespaces,
        standalone=True,
        # Else it would ask who runs it, and a pod's user has no name.
        identity=cast(Any, OPERATOR),
        ready_flag=ready,
    )


async def _safety_net(
    relister: Relister, reconciler: Reconciler, memory: Memory, queue: WorkQueue[Key], seconds: int
) -> None:
    while True:
        await anyio.sleep(seconds)
        await relister.relist()
        for job in memory.jobs.all():
            queue.add(key_of(job))
        await reconciler.sweep_volumes()
        await reconciler.sweep_pods()


async def _door(
    host: str, port: int, metrics: OperatorMetrics, memory: Memory, api: KubeApi, ready: asyncio.Event
) -> None:
    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n") if ready.is_set() else web.Response(status=503, text="not yet\n")

    async def counted(_: web.Request) -> web.Response:
        metrics.show_pending(memory.jobs.all())
        metrics.show_calls(api.calls)
        text = await anyio.to_thread.run_sync(generate_latest, metrics.registry)
        return web.Response(body=text, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", counted)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        await anyio.sleep_forever()
    finally:
        with anyio.move_on_after(2, shield=True):
            await runner.cleanup()
