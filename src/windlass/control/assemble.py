"""Puts a control plane together from ports: takes the lead, rebuilds the World, wires the loops. Starts nothing."""

from collections.abc import Mapping

from windlass.control.artifacts import Artifacts
from windlass.control.audit import AuditTrail
from windlass.control.autoscaler import Autoscaler
from windlass.control.brain import Brain, rebuild
from windlass.control.committer import Committer
from windlass.control.dispatch import Dispatch
from windlass.control.foresight import Foresight
from windlass.control.intake import Intake
from windlass.control.janitor import Janitor, Retention
from windlass.control.leadership import take_epoch
from windlass.control.plane import ControlPlane
from windlass.control.pools import Pools
from windlass.control.readmodel import PATIENCE_SECONDS, Offload, ReadModel
from windlass.control.runtimes import Runtimes
from windlass.control.secrets import Secrets
from windlass.control.specs import Specs
from windlass.control.tallies import Tallies
from windlass.control.tenants import Tenants
from windlass.control.terminals import Terminals
from windlass.control.treasury import Treasury
from windlass.control.webhooks import Webhooks
from windlass.core.model.ids import NodeId
from windlass.core.world.policy import Policy
from windlass.ports.blobs import Blobs
from windlass.ports.clock import Clock
from windlass.ports.failpoints import Failpoints
from windlass.ports.fetcher import Fetcher
from windlass.ports.ids import Ids
from windlass.ports.logs import Logs
from windlass.ports.provisioner import Provisioner
from windlass.ports.readmodel import ReadTables
from windlass.ports.runtime import Machine, Runtime
from windlass.ports.secrets import Guard, Sealer
from windlass.ports.store import Store


async def assemble(
    *,
    store: Store,
    tables: ReadTables,
    blobs: Blobs,
    logs: Logs,
    fetcher: Fetcher,
    runtime: Runtime,
    machine: Machine,
    others: Mapping[NodeId, Runtime] | None = None,
    clock: Clock,
    ids: Ids,
    sealer: Sealer,
    guard: Guard,
    failpoints: Failpoints,
    offload: Offload,
    policy: Policy | None = None,
    retention: Retention | None = None,
    epoch_seen: int = 0,
    provisioners: Mapping[str, Provisioner] | None = None,
    writing: Offload | None = None,
    patience_seconds: float = PATIENCE_SECONDS,
    gathering_seconds: float = 0,
) -> ControlPlane:
    """`runtime` is this machine's own; `others` are those of nodes that are elsewhere. `patience_seconds`:
    how long a reader waits for the read model to have what was decided before; `gathering_seconds`: see `ReadModel`."""
    epoch, fence = await take_epoch(store, epoch_seen=epoch_seen)
    world, revision, marked_at = await rebuild(store, epoch=epoch, policy=policy or Policy(), now=clock.now())
    committer = Committer(world, store, clock, failpoints, fence=fence, revision=revision, marked_at=marked_at)
    brain = Brain(world, committer, clock, failpoints)
    specs = Specs(store)
    dispatch = Dispatch(world, specs, failpoints)
    committer.listen(dispatch.committed)
    secrets = Secrets(brain, store, specs, sealer)
    read_model = ReadModel(
        tables,
        store,
        newest=lambda: committer.revision,
        offload=offload,
        writing=writing,
        patience_seconds=patience_seconds,
        gathering_seconds=gathering_seconds,
    )
    webhooks = Webhooks(brain, read_model, fetcher)
    committer.listen(webhooks.committed)
    janitor = Janitor(brain, store, read_model, blobs, logs, retention or Retention())
    committer.listen(janitor.committed)
    runtimes = Runtimes(runtime, others)
    treasury = Treasury(brain, read_model)
    committer.listen(treasury.committed)
    autoscaler = Autoscaler(brain, provisioners or {})
    committer.listen(autoscaler.committed)
    tallies = Tallies()
    committer.listen(tallies.committed)
    return ControlPlane(
        brain=brain,
        dispatch=dispatch,
        intake=Intake(brain, store, specs, read_model, ids),
        foresight=Foresight(brain, ids),
        read_model=read_model,
        tenants=Tenants(brain),
        audit=AuditTrail(brain),
        pools=Pools(brain, machine, tallies),
        autoscaler=autoscaler,
        janitor=janitor,
        webhooks=webhooks,
        treasury=treasury,
        logbook=logs,
        artifacts=Artifacts(brain, runtimes),
        terminals=Terminals(brain, runtimes, ids, secrets, guard),
        secrets=secrets,
        blobs=blobs,
        store=store,
        clock=clock,
        ids=ids,
        runtimes=runtimes,
        runtime_kind=machine.kind,
        runtime_name=machine.runtime,
    )
