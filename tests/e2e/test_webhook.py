"""A webhook at a job's end: told until it is heard, also by the next server; private addresses only when allowed."""

import json
import urllib.request

from tests.e2e.server import WindlassServer
from tests.parts.waiting import wait_for
from tests.parts.web import Listener

ALLOWED = {"WINDLASS_FETCH_NETWORKS": "127.0.0.0/8"}


def test_the_end_of_a_job_is_told_until_it_is_heard() -> None:
    with Listener(refuse_first=2) as listener, WindlassServer(environ=ALLOWED) as server:
        said = server.cli(
            "run", "--name", "told", "--webhook", f"{listener.url}/hook", "--", "sh", "-c", "exit 4", check=False
        )
        assert said.code == 4
        wait_for(lambda: listener.heard, 120, "the webhook to be heard")
        headers, body = listener.heard[0]
        told = json.loads(body)
        assert (told["metadata"]["name"], told["status"]["state"], told["status"]["exitCode"]) == ("told", "FAILED", 4)
        assert headers["Windlass-Delivery"] == told["metadata"]["uid"]
        assert listener.refused == 2


def test_a_webhook_that_is_owed_survives_a_killed_server() -> None:
    with Listener(refuse_first=1) as listener, WindlassServer(environ=ALLOWED) as server:
        server.cli("run", "--name", "owed", "--webhook", f"{listener.url}/hook", "--", "true")
        wait_for(lambda: listener.refused, 120, "the first try to be refused")
        server.kill()
        server.start()
        wait_for(lambda: listener.heard, 120, "the webhook to be heard by the next server's word")
        assert json.loads(listener.heard[0][1])["metadata"]["name"] == "owed"


def test_a_private_address_is_refused_at_the_door_unless_it_is_allowed() -> None:
    with Listener() as listener, WindlassServer() as server:
        said = server.cli("run", "--name", "quiet", "--webhook", f"{listener.url}/hook", "--", "true", check=False)
        assert said.code == 1
        assert "spec.webhook.url" in said.err
        assert "private or special network" in said.err
        assert server.cli("get", "jobs", "-o", "json").json()["items"] == []
        assert (listener.heard, listener.refused) == ([], 0)


def test_an_address_that_is_no_longer_allowed_is_given_up_and_its_owner_sees_it() -> None:
    with Listener(refuse_first=1_000) as listener, WindlassServer(environ=ALLOWED) as server:
        server.cli("run", "--name", "never", "--webhook", f"{listener.url}/hook", "--", "true")
        wait_for(lambda: listener.refused, 120, "a try")
        server.kill()
        server.extra.clear()
        server.start()

        def status() -> dict[str, str]:
            found: dict[str, str] = server.cli("get", "job", "never", "-o", "json").json()["status"]["webhook"]
            return found

        wait_for(lambda: status()["state"] == "given-up", 120, "the webhook to be given up")
        assert "private or special network" in status()["problem"]
        told = server.cli("events", "--job", "never").out
        assert "WebhookFailed" in told
        assert "the address answered 500" in told
        assert "WebhookGivenUp" in told
        measured = urllib.request.urlopen(f"{server.url}/metrics", timeout=60).read().decode()
        assert 'windlass_webhooks_total{outcome="given-up"} 1.0' in measured
        assert listener.heard == []
