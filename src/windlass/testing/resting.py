# ruff: noqa: SLF001 - leaks are looked for where nobody else looks
"""What must be left when a simulated installation has come to rest: nothing but history. And at any moment: one truth.

The World rebuilt from the store equals the live one; the read model says what the store says; nothing leaks on the nodes.
"""

from collections.abc import Iterator
from typing import Any

from windlass.core.errors import NotFound
from windlass.core.model.calendar import Day
from windlass.core.model.costs import CostBy, CostQuery
from windlass.core.model.resources import NOTHING
from windlass.core.model.run import RunState
from windlass.core.world.records import KEPT, JobErased, JobOver, RunOver, Table, decode, table_prefix
from windlass.core.world.world import World
from windlass.testing.cluster import AgentHost, Cluster


def check_rest(cluster: Cluster) -> list[str]:
    """After heal, quiet, and the longest TTL."""
    wrong = [f"fault: {fault}" for fault in cluster.faults]
    plane = cluster.server.plane
    if plane is None:
        return [*wrong, "rest: the server is not up"]
    wrong += [f"leak: {one}" for one in _leaks_of_world(plane.brain.world)]
    for agent in cluster.agents.values():
        wrong += [f"leak on {agent.node.id}: {one}" for one in _leaks_of_node(agent)]
    wrong += [f"read model: {one}" for one in _read_model(cluster)]
    wrong += [f"logs: {one}" for one in _logs(cluster)]
    return wrong + check_rebuild(cluster)


def check_rebuild(cluster: Cluster) -> list[str]:
    """At any moment when nothing is on its way to the store."""
    plane = cluster.server.plane
    if plane is None or len(plane.brain.world.journal):
        return []
    live = plane.brain.world
    again = rebuilt(cluster, live)
    return [f"rebuild: {one}" for one in _differences(live, again)]


def rebuilt(cluster: Cluster, like: World) -> World:
    world = World(epoch=like.epoch, policy=like.policy)
    world.tables.now = like.tables.now
    for table in KEPT:
        for key, value in stored(cluster, table).items():
            world.load(table, key, value)
    return world


def stored(cluster: Cluster, table: Table) -> dict[str, Any]:
    prefix = table_prefix(table)
    items = cluster.truth.items_below(prefix)
    return {item.key[len(prefix) :]: decode(table, item.value) for item in items}


def _differences(live: World, again: World) -> Iterator[str]:
    one, other = live.tables, again.tables
    for name in ("tenants", "nodes", "jobs", "runs", "volumes", "names", "keys", "volume_named", "totals", "marks"):
        if getattr(one, name) != getattr(other, name):
            keys = getattr(one, name).items() ^ getattr(other, name).items()
            yield f"{name} differ: {sorted(map(str, keys))[:4]}"
    if dict(one.runs_on) != dict(other.runs_on) or dict(one.runs_of) != dict(other.runs_of):
        yield "the indexes of runs differ"
    for slot in one.places:
        twin = other.places.slot(slot.node.id)
        if twin is None or (slot.free, slot.free_gpus, slot.runs) != (twin.free, twin.free_gpus, twin.runs):
            yield f"node {slot.node.id} is {slot.free} free; rebuilt, {twin and twin.free}"
    for tenant in {*one.usage, *other.usage}:
        mine, theirs = one.usage[tenant], other.usage[tenant]
        if (mine.jobs, mine.runs, mine.resources) != (theirs.jobs, theirs.runs, theirs.resources):
            yield f"usage of {tenant}: {mine.jobs} jobs, {mine.runs} runs; rebuilt {theirs.jobs}, {theirs.runs}"
    if (one.ledger.accounts(), one.ledger.now()) != (other.ledger.accounts(), other.ledger.now()):
        yield f"the accounts differ: {one.ledger.accounts()} and {other.ledger.accounts()}"
    if _queued(live) != _queued(again):
        yield f"the queue differs: {_queued(live)} and {_queued(again)}"


def _queued(world: World) -> list[str]:
    """In the order they would be placed; jobs whose backoff has just ended may or may not be in their lane yet."""
    now = world.tables.now
    waiting = [job for job in world.tables.jobs.values() if job.is_waiting and job.not_before < now - 1000]
    inside = [job for job in waiting if job in world.tables.queue]
    ledger = world.tables.ledger
    return [
        job.id for job in sorted(inside, key=lambda job: (ledger.account(job.tenant).finish, -job.priority, job.seq))
    ]


def _leaks_of_world(world: World) -> Iterator[str]:
    tables = world.tables
    for name in ("jobs", "runs", "volumes"):
        left = getattr(tables, name)
        if left:
            yield f"{len(left)} {name} are left: {list(left.values())[:2]}"
    for tenant, usage in tables.usage.items():
        if (usage.jobs, usage.runs, usage.resources) != (0, 0, NOTHING):
            yield f"tenant {tenant} still holds {usage.jobs} jobs, {usage.runs} runs, {usage.resources}"
    for slot in tables.places:
        if slot.free != slot.node.capacity or slot.runs:
            yield f"node {slot.node.id} has {slot.free} free of {slot.node.capacity}"
    if len(tables.queue):
        yield f"{len(tables.queue)} jobs are queued"


def _leaks_of_node(agent: AgentHost) -> Iterator[str]:
    if agent.machine.containers:
        yield f"containers {sorted(agent.machine.containers)}"
    if agent.machine.volumes:
        yield f"volumes {sorted(agent.machine.volumes)}"
    if agent.agent is None or agent.journal is None:
        yield "the agent is not up"
        return
    if agent.agent._keepers:
        yield f"keepers of {sorted(agent.agent._keepers)}"
    if agent.agent._dropping:
        yield f"drops under way: {sorted(agent.agent._dropping)}"
    if agent.journal._started or agent.journal._staged:
        yield f"journal: {len(agent.journal._started)} runs, {len(agent.journal._staged)} volumes"


def _read_model(cluster: Cluster) -> Iterator[str]:
    erased = set()
    for outgoing in stored(cluster, Table.OUTBOX).values():
        match outgoing:
            case JobErased(job=job):
                erased.add(job)
                if _found(cluster, job) is not None:
                    yield f"job {job} was erased and is still shown"
            case JobOver(job=over):
                view = _found(cluster, over.id)
                if view is None or view.job != over:
                    yield f"job {over.id} is shown as {view and view.job}, it is {over}"
    for outgoing in stored(cluster, Table.OUTBOX).values():
        if isinstance(outgoing, RunOver) and outgoing.run.job not in erased:
            view = _found(cluster, outgoing.run.job)
            shown = {run.id: run for run in view.runs} if view else {}
            run = shown.get(outgoing.run.id)
            if run is None or (run.state, run.exit_code) != (outgoing.run.state, outgoing.run.exit_code):
                yield f"run {outgoing.run.id} is shown as {run}"
    if {volume.volume.id for volume in cluster.tables.volumes(None)} != set(stored(cluster, Table.VOLUMES)):
        yield "volumes differ from the store's"
    yield from _ledger(cluster)


def _ledger(cluster: Cluster) -> Iterator[str]:
    """The read model's sums are the store's totals, whatever was replayed on the way."""
    query = CostQuery(tenant=None, by=(CostBy.TENANT, CostBy.POOL, CostBy.DAY), since=Day(0), until=Day(1 << 20))
    shown = {(row.tenant, row.pool, row.day): row.cost for row in cluster.tables.costs(query)}
    kept = {
        (total.tenant, pool, total.day): sums.cost
        for total in stored(cluster, Table.TOTALS).values()
        for pool, sums in total.pools.items()
    }
    for where in {*shown, *kept}:
        if shown.get(where, 0) != kept.get(where, 0):
            yield f"cost of {where} is shown as {shown.get(where)}, it is {kept.get(where)}"


def _found(cluster: Cluster, job: str) -> Any:
    try:
        return cluster.tables.find_job(None, job)
    except NotFound:
        return None


def _logs(cluster: Cluster) -> Iterator[str]:
    """No line lost, none doubled, for every run that came to its own end; nothing of a job that was erased."""
    outbox = stored(cluster, Table.OUTBOX).values()
    erased = {outgoing.job for outgoing in outbox if isinstance(outgoing, JobErased)}
    for held_run, lines in cluster.logs.lines.items():
        if lines and held_run[:36] in erased:
            yield f"job {held_run[:36]} was erased and its log is still there"
    for outgoing in outbox:
        if not isinstance(outgoing, RunOver) or outgoing.run.state is not RunState.EXITED:
            continue
        run = outgoing.run
        if run.job in erased:
            continue
        written = cluster.agents[run.node].machine.outputs.get(run.id)
        held = [line.text for line in cluster.logs.lines.get(run.id, ())]
        if written is not None and held != written:
            yield f"{run.id} wrote {written}, its log has {held}"
        if run.id not in cluster.logs.sealed:
            yield f"the log of {run.id} is not sealed"
