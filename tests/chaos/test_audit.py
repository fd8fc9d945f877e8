"""The audit over SIGKILLs between commit and answer: every job has its record, every record its job, each exactly once."""

from collections import Counter

from tests.chaos.clients import Submitters
from tests.e2e.server import WindlassServer
from tests.parts.waiting import wait_for

JOBS = 60
MANIFEST = {
    "apiVersion": "windlass.dev/v1",
    "kind": "Job",
    "spec": {"command": ["true"], "suspend": True},
}


def test_after_a_kill_in_a_commit_jobs_and_records_are_still_the_same() -> None:
    kills = ["commit.after_write_before_settle=kill@6", "submit.after_commit_before_ack=kill@4"]
    with WindlassServer(environ={"WINDLASS_FAILPOINTS": kills[0]}) as server:
        with Submitters(server, MANIFEST, count=8) as clients:
            clients.allow(JOBS)
            for following in ({"WINDLASS_FAILPOINTS": kills[1]}, {}):
                wait_for(lambda: not server.is_running, 120, "the server to die")
                server.extra = following
                server.start()
            wait_for(lambda: len(clients.acknowledged) == JOBS, 120, "every job to be acknowledged")
        assert clients.failures == []
        client = server.client()
        jobs = {job["metadata"]["uid"] for job in client.jobs()}
        records = Counter(record["uid"] for record in client.audit(verb="submit", outcome="done"))
        assert clients.uids == jobs
        assert records == Counter(jobs)
