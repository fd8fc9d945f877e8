"""Ends that no manifest wrote a time for: a tenant's default timeout, else the server's; and what is said of such ends."""

from typing import Any

from tests.e2e.server import WindlassServer

SERVERS = {
    "WINDLASS_DEFAULT_TIMEOUT_SECONDS": "7200",
    "WINDLASS_QUOTA": '{"cpu": "2", "jobs": null}',
    "WINDLASS_PRICES": '{"every": {"coreHour": 7}, "tiers": {"premium": 50}}',
}


def timeout_of_a_new_job(server: WindlassServer) -> Any:
    asked = {"apiVersion": "windlass.dev/v1", "kind": "Job", "spec": {"command": ["true"], "suspend": True}}
    return server.client().create(asked)["spec"].get("timeoutSeconds")


def test_a_tenants_default_timeout_outlives_a_killed_server_whatever_the_setting_says() -> None:
    with WindlassServer(environ=SERVERS) as server:
        assert timeout_of_a_new_job(server) == 7200
        quota = server.cli("tenants", "create", "vision", "--memory", "1Gi", "-o", "json").json()["spec"]["quota"]
        assert (quota["cpu"], quota["memory"], quota["jobs"], quota["gpu"]) == ("2", "1Gi", None, 0)
        prices = server.cli("prices", "list", "-o", "json").json()
        assert (prices["every"]["coreHour"], prices["tiers"]) == (7, {"premium": 50})
        server.cli("prices", "set", "--core-hour", "0.000009")
        server.client().change_tenant("local", {"defaultTimeout": "1h"})
        for settings in (SERVERS, {}):
            server.kill()
            server.extra = dict(settings)
            server.start()
            assert server.client().tenant("local")["spec"]["defaultTimeout"] == 3600
            assert timeout_of_a_new_job(server) == 3600
            assert server.client().prices()["every"]["coreHour"] == 9, "set since, and the setting is the same or gone"
        server.client().change_tenant("local", {"defaultTimeout": None})
        assert timeout_of_a_new_job(server) is None


def test_a_tenants_default_timeout_ends_a_job_that_names_none() -> None:
    with WindlassServer() as server:
        server.client().change_tenant("local", {"defaultTimeout": "1s"})
        server.cli("run", "--name", "endless", "--", "sh", "-c", "echo step 7; exec sleep 1000", check=False)
        status = server.client().job("endless")["status"]
        assert (status["state"], status["reason"]) == ("TIMED_OUT", "DeadlineExceeded")
        assert "step 7" in status["message"]


def test_a_job_that_is_stopped_for_its_money_says_how_far_it_came() -> None:
    with WindlassServer() as server:
        server.cli(
            "run",
            "--name",
            "dear",
            "--max-cost",
            "0.000001",
            "--",
            "sh",
            "-c",
            "echo step 7; exec sleep 1000",
            check=False,
        )
        status = server.client().job("dear")["status"]
        assert (status["state"], status["reason"]) == ("FAILED", "CostExceeded")
        assert status["message"].endswith("its last lines:\nstep 7")
