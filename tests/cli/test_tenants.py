"""Tenants, tokens and the audit from the command line, against a real server that is killed in between."""

import json
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.server import RealServer, real_server

TENANT = """\
apiVersion: windlass.dev/v1
kind: Tenant
metadata: {name: acme}
spec:
  tier: standard
  quota: {cpu: 8, jobs: null}
---
apiVersion: windlass.dev/v1
kind: Job
metadata: {name: beside}
spec: {command: [echo, hi], suspend: true}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    from tests.parts.ports import free_port

    with real_server(tmp_path_factory.mktemp("tenants"), free_port()) as running:
        yield running


@pytest.fixture
def said(server: RealServer) -> Callable[..., str]:
    def say(*words: str, stdin: str | None = None, code: int = 0) -> str:
        done = server.windlass(*words, stdin=stdin)
        assert done.returncode == code, done
        return done.stdout + (done.stderr if code else "")

    return say


Said = Callable[..., str]


def test_a_tenant_is_created_shown_changed_and_deleted(said: Said) -> None:
    assert (
        said("tenants", "create", "vision", "--tier", "premium", "--memory", "64Gi", "--jobs", "none")
        == "tenant/vision created\n"
    )
    assert "there is a tenant 'vision' already" in said("tenants", "create", "vision", code=5)
    table = said("tenants", "list").splitlines()
    assert table[0].split() == ["NAME", "TIER", "WEIGHT", "POLICY", "CPU", "MEMORY", "GPU", "JOBS", "QUEUED", "AGE"]
    row = next(line for line in table if line.startswith("vision"))
    assert "premium  3" in row
    assert "0 of ∞" in row
    assert said("tenants", "weight", "vision", "2.5") == "tenant/vision has weight 2.5\n"
    assert "quota.cpu" in said("tenants", "quota", "vision", "--cpu", "12", "--pool", "local")
    shown = json.loads(said("get", "tenant", "vision", "-o", "json"))
    assert (shown["spec"]["quota"]["cpu"], shown["spec"]["quota"]["memory"], shown["spec"]["quota"]["pools"]) == (
        "12", "64Gi", ["local"],
    )  # fmt: skip
    assert "weight" in said("describe", "tenant", "vision")
    assert said("tenants", "delete", "vision") == "tenant/vision deleted\n"
    assert "not given again" in said("tenants", "create", "vision", code=5)


def test_a_manifest_is_applied_beside_a_jobs_and_applying_twice_changes_nothing(said: Said, tmp_path: Path) -> None:
    (tmp_path / "both.yaml").write_text(TENANT)
    assert said("apply", "-f", str(tmp_path / "both.yaml")) == "tenant/acme created\njob/beside created\n"
    assert said("apply", "-f", str(tmp_path / "both.yaml")) == "tenant/acme unchanged\njob/beside unchanged\n"
    (tmp_path / "more.yaml").write_text(TENANT.split("---")[0].replace("cpu: 8", "cpu: 9"))
    assert said("apply", "-f", str(tmp_path / "more.yaml")) == "tenant/acme changed\n"
    assert said("get", "tenants", "-o", "name").split() == ["tenant/acme", "tenant/local"]
    read = said("get", "tenant", "acme", "-o", "yaml")
    assert said("apply", "-f", "-", stdin=read) == "tenant/acme unchanged\n"


def test_faults_are_all_named(said: Said) -> None:
    words = said("tenants", "create", "bad", "--weight", "0.1", "--jobs", "-1", "--pool", "nowhere", code=1)
    for part in ("spec.weight: expected 0.5 to 10", "spec.quota.jobs", "there is no pool “nowhere”"):
        assert part in words
    assert "bad" not in said("get", "tenants", "-o", "name").split()


def test_a_token_is_written_for_its_owner_only_and_works_until_it_is_revoked_over_a_kill(
    server: RealServer, said: Said, tmp_path: Path
) -> None:
    file = tmp_path / "ci.token"
    said("tenants", "token", "local", "--role", "viewer", "--subject", "ci", "--ttl", "1h", "--file", str(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    token = file.read_text().strip()
    me = json.loads(said("--token", token, "whoami", "-o", "json"))
    assert (me["subject"], me["roles"]) == ("ci", ["viewer"])
    assert "look, but change nothing" in said("--token", token, "run", "-d", "--", "true", code=4)
    assert "cannot be written" in said("tenants", "token", "local", "--file", str(file), code=1)
    listed = json.loads(said("tenants", "tokens", "local", "-o", "json"))["items"]
    assert [one["subject"] for one in listed] == ["admin", "ci"], "the refused file made no token"
    assert token not in said("tenants", "tokens", "local")
    assert said("tenants", "revoke", "local", me["token"]) == f"token/{me['token']} revoked\n"
    assert "revoked" in said("--token", token, "whoami", code=4)
    server.kill()
    server.start()
    assert "revoked" in said("--token", token, "whoami", code=4)
    assert "revoked" in said("tenants", "tokens", "local")
    assert json.loads(said("whoami", "-o", "json"))["token"] == listed[0]["id"], (
        "the token of `up` is kept over a restart"
    )


def test_an_admin_who_revoked_their_own_token_gets_another_with_the_next_start(server: RealServer, said: Said) -> None:
    mine = json.loads(said("whoami", "-o", "json"))["token"]
    said("tenants", "revoke", "local", mine)
    assert "revoked" in said("whoami", code=4)
    server.kill()
    server.start()
    assert json.loads(said("whoami", "-o", "json"))["token"] != mine


def test_a_second_tenant_is_told_why_it_cannot_run_plain_processes(said: Said) -> None:
    token = said("tenants", "token", "acme").strip()
    words = said("--token", token, "run", "-d", "--", "true", code=4)
    assert "for tenant 'local' alone" in words
    assert said("--token", token, "get", "jobs", "-o", "name") == ""


def test_the_audit_says_who_did_what_and_is_exported_whole_over_a_kill(server: RealServer, said: Said) -> None:
    made = [said("run", "-d", "--", "true").strip() for _ in range(5)]
    server.kill()
    server.start()
    made += [said("run", "-d", "--", "true").strip() for _ in range(3)]
    lines = [json.loads(line) for line in said("audit", "--export", "--verb", "submit", "--done").splitlines()]
    assert [line["name"] for line in lines if line["name"] in made] == made, (
        "one record for each, in order, and no more"
    )
    assert {(line["subject"], line["tenant"], line["address"]) for line in lines} == {("admin", "local", "127.0.0.1")}
    refused = json.loads(said("audit", "--refused", "--since", "1h", "-o", "json"))["items"]
    assert {one["code"] for one in refused} >= {"read-only", "single-tenant", "tenant-gone", "invalid"}
    table = said("audit", "--limit", "3").splitlines()
    assert table[0].split() == ["AT", "WHO", "TENANT", "VERB", "KIND", "NAME", "OUTCOME", "ADDRESS", "REQUEST"]
    assert len(table) == 4
    assert said("audit", "--until", "2001-01-01") == ""
    assert "is not a moment" in said("audit", "--since", "yesterday", code=2)
