"""What simulation found about volumes of jobs that are tried on one node after the other."""

from msgspec.structs import replace

from windlass.core.model.facts import RunEnded, VolumeGone, VolumeMade
from windlass.core.model.ids import LOCAL_TENANT, Millis, NodeId
from windlass.core.model.job import Job
from windlass.core.model.node import NodeState
from windlass.core.model.run import Run, RunState
from windlass.core.model.volume import VolumeState, doomed_on
from windlass.core.world.expiry import expire
from windlass.core.world.facts import observe
from windlass.core.world.finish import doom
from windlass.core.world.place import place
from windlass.core.world.requests import delete, find_volume
from windlass.core.world.submit import submit
from windlass.core.world.world import World
from windlass.testing.builders import a_job_id, a_node, a_submission, a_world

NOW = Millis(2_000_000)
LATER = Millis(NOW + 10_000)
ONE, TWO = NodeId("n1"), NodeId("n2")


def end(run: Run, *, code: int) -> RunEnded:
    return RunEnded(run=run.id, token=run.token, state=RunState.EXITED, exit_code=code, reason="ExitCode")


def tried_on_two_nodes() -> tuple[World, Job, Run]:
    """Its first attempt failed on n1, its second one is on n2."""
    world = a_world(a_node("n1"), a_node("n2"))
    job, _ = submit(world, LOCAL_TENANT, a_submission(retries=1, volume_ttl_ms=60_000), job=a_job_id(), now=NOW)
    (first,) = place(world, now=NOW)
    observe(world, VolumeMade(volume=job.volume_id, node=first.node), now=NOW)
    observe(world, end(first, code=1), now=NOW)
    world.set_node(replace(world.tables.nodes[first.node], state=NodeState.CORDONED), now=NOW)
    expire(world, now=LATER)
    (second,) = place(world, now=LATER)
    assert {first.node, second.node} == {ONE, TWO}
    return world, job, second


def test_the_copy_an_earlier_attempt_left_goes_when_the_job_is_over() -> None:
    world, job, second = tried_on_two_nodes()
    assert doomed_on(world.tables.volumes[job.volume_id]) == frozenset()
    observe(world, end(second, code=0), now=LATER)
    (elsewhere,) = {ONE, TWO} - {second.node}
    assert doomed_on(world.tables.volumes[job.volume_id]) == {elsewhere}
    observe(world, VolumeGone(volume=job.volume_id, node=elsewhere), now=LATER)
    assert world.tables.volumes[job.volume_id].node == second.node
    assert doomed_on(world.tables.volumes[job.volume_id]) == frozenset()


def test_the_record_stays_until_the_last_copy_is_gone() -> None:
    world, job, second = tried_on_two_nodes()
    observe(world, end(second, code=0), now=LATER)
    expire(world, now=Millis(LATER + 60_000))
    assert doomed_on(world.tables.volumes[job.volume_id]) == {ONE, TWO}
    observe(world, VolumeGone(volume=job.volume_id, node=second.node), now=LATER)
    assert job.volume_id in world.tables.volumes
    (elsewhere,) = {ONE, TWO} - {second.node}
    observe(world, VolumeGone(volume=job.volume_id, node=elsewhere), now=LATER)
    assert job.volume_id not in world.tables.volumes


def test_a_volume_counts_as_present_only_when_the_node_of_the_newest_run_says_so() -> None:
    world, job, second = tried_on_two_nodes()
    (elsewhere,) = {ONE, TWO} - {second.node}
    observe(world, VolumeMade(volume=job.volume_id, node=elsewhere), now=LATER)
    assert world.tables.volumes[job.volume_id].state is VolumeState.WAITING
    observe(world, VolumeMade(volume=job.volume_id, node=second.node), now=LATER)
    assert world.tables.volumes[job.volume_id].state is VolumeState.PRESENT


def test_a_name_means_the_newest_volume_also_after_an_older_namesake_changed() -> None:
    """A job deleted without its volume, and another one of the same name after it."""
    world = a_world()
    jobs = []
    for _ in range(2):
        job, _ = submit(world, LOCAL_TENANT, a_submission(name="same", volume_ttl_ms=60_000), job=a_job_id(), now=NOW)
        (run,) = place(world, now=NOW)
        delete(world, LOCAL_TENANT, job.id, with_volume=False, now=NOW)
        observe(world, end(run, code=0), now=NOW)
        jobs.append(job)
    older, newer = jobs
    assert find_volume(world, LOCAL_TENANT, "artifacts-same").id == newer.volume_id
    doom(world, world.tables.volumes[older.volume_id], NOW)
    assert find_volume(world, LOCAL_TENANT, "artifacts-same").id == newer.volume_id
    doom(world, world.tables.volumes[newer.volume_id], NOW)
    observe(world, VolumeGone(volume=newer.volume_id, node=ONE), now=NOW)
    assert find_volume(world, LOCAL_TENANT, "artifacts-same").id == older.volume_id
