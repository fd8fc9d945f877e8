"""A real server that trusts an issuer by its settings: from the environment to a job of the issuer's own user."""

import json
import subprocess
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal

from tests.e2e.server import WindlassServer
from tests.parts.issuer import loopback_issuer
from windlass.boot.settings import load
from windlass.client.client import Client
from windlass.client.connection import Connection
from windlass.core.errors import Invalid


def test_a_user_of_the_issuer_comes_in_and_others_do_not() -> None:
    with start_blocking_portal("asyncio") as portal, portal.wrap_async_context_manager(loopback_issuer()) as issuer:
        trusted = [{"issuer": issuer.url, "audience": "windlass", "roles": {"staff": "admin"}}]
        environ = {"WINDLASS_OIDC": json.dumps(trusted), "WINDLASS_OIDC_NETWORKS": "127.0.0.1/32"}
        with WindlassServer(environ=environ) as server:
            token = issuer.sign(tenant="local", sub="grace")
            client = Client(Connection(url=server.url, token=token))
            me = client.whoami()
            assert (me["subject"], me["tenant"], me["roles"]) == ("grace", "local", ["admin"])
            made = client.create({"apiVersion": "windlass.dev/v1", "kind": "Job", "spec": {"command": ["true"]}})
            (record,) = client.audit(uid=made["metadata"]["uid"])
            assert (record["subject"], record["token"]) == ("grace", "j-1")
            # What issuers may be fetched from is not what jobs may fetch from.
            refused = server.cli("copy-file", "x", f"{issuer.url}/keys", check=False)
            assert "private or special network" in refused.err


def test_an_issuer_in_a_network_nobody_allowed_is_not_asked() -> None:
    with start_blocking_portal("asyncio") as portal, portal.wrap_async_context_manager(loopback_issuer()) as issuer:
        trusted = [{"issuer": issuer.url, "audience": "windlass"}]
        with WindlassServer(environ={"WINDLASS_OIDC": json.dumps(trusted)}) as server:
            address = f"{server.url}/api/v1/whoami"
            command = [
                "curl",
                "-s",
                "-o",
                "/dev/null",
                "-w",
                "%{http_code}",
                "-H",
                f"Authorization: Bearer {issuer.sign()}",
            ]
            done = subprocess.run([*command, address], capture_output=True, text=True, timeout=240)
            assert done.stdout == "503"
            assert issuer.fetches == []


def test_issuers_are_read_from_the_settings_file(tmp_path: Path) -> None:
    file = tmp_path / "windlass.toml"
    file.write_text('[[oidc]]\nissuer = "https://login.example.com"\naudience = "w"\nroles = { ops = "admin" }\n')
    settings = load({}, {"data_dir": str(tmp_path)}, file)
    assert (settings.oidc[0].issuer, settings.oidc[0].roles) == ("https://login.example.com", {"ops": "admin"})


@pytest.mark.parametrize(
    "broken", ['[{"issuer": "http://login.example.com", "audience": "w"}]', "{", '"x"', '[{"audience": "w"}]']
)
def test_issuers_that_would_weaken_it_stop_the_start(tmp_path: Path, broken: str) -> None:
    with pytest.raises(Invalid) as refused:
        load({"WINDLASS_OIDC": broken}, {"data_dir": str(tmp_path)})
    assert all(fault.field.startswith("oidc") for fault in refused.value.faults)
