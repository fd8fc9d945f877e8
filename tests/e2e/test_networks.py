"""Tenants on real engines: each in a network of its own, out of reach of the others, of the node and of its metadata."""

import json
from collections.abc import Iterator
from ipaddress import ip_address, ip_network

import pytest

from tests.e2e.town import BEYOND, METADATA, NODE, PORT, Town, town
from tests.parts.busybox import IMAGE
from tests.parts.dockerd import DockerEngine
from tests.parts.podman import PodmanService
from tests.parts.waiting import wait_for

DEADLINE = 240
SMALL = ("--cpu", "0.1", "--memory", "64Mi")
LISTEN = f"nc -ll -p {PORT} -e sh -c 'echo $TENANT; cat > /dev/null'"
SETTLED = "while ip addr | grep -q tentative; do sleep 0.1; done"
"""The kernel tries an address of version 6 for a second before it uses it."""
ASK = r"printf 'GET /healthz HTTP/1.0\r\n\r\n' | nc -w 3 $1 $2 | head -n 1"


@pytest.fixture(scope="module", params=["docker", "podman"])
def place(request: pytest.FixtureRequest) -> Iterator[Town]:
    with DockerEngine(own_network=True) if request.param == "docker" else PodmanService() as engine:
        engine.import_busybox()
        with town(engine) as found:
            for tenant in ("vision", "speech"):
                found.server.cli("tenants", "create", tenant)
            yield found


def test_a_tenants_runs_reach_each_other_and_the_world_and_nobody_else(place: Town) -> None:
    at = {tenant: listener(place, tenant) for tenant in ("vision", "speech")}
    gateways = {tenant: address.rpartition(".")[0] + ".1" for tenant, address in at.items()}
    api = int(place.server.url.rpartition(":")[2])
    for tenant, other in (("vision", "speech"), ("speech", "vision")):
        targets = {
            "itself": (at[tenant], PORT),
            "the world": (BEYOND, PORT),
            "the other": (at[other], PORT),
            "the node": (NODE, PORT),
            "its gateway": (gateways[tenant], PORT),
            "the other's gateway": (gateways[other], PORT),
            "our API": (gateways[tenant], api),
            "metadata": (METADATA, PORT),
        }
        heard = dict(zip(targets, ask(place, tenant, list(targets.values())), strict=True))
        assert heard == dict.fromkeys(targets, "") | {"itself": tenant, "the world": "beyond"}
    # All of these answer, if asked from where it is allowed: by the node itself.
    assert [on_node(place, at["vision"]), on_node(place, gateways["vision"])] == ["vision", "node"]
    assert [on_node(place, METADATA), on_node(place, NODE)] == ["beyond", "node"]


def test_the_kernels_own_version_6_addresses_lead_nowhere(place: Town) -> None:
    listener(place, "vision")
    network = next(one for one in place.networks() if one["Labels"]["windlass.dev/tenant"] == "vision")
    subnet = ip_network(network["IPAM"]["Config"][0]["Subnet"])

    def kernels_own() -> str | None:
        """Once the bridge has a member, a moment after the start of its run."""
        links = json.loads(place.on_node("ip", "-json", "addr", "show", "type", "bridge"))
        rows = [[row["local"] for row in link["addr_info"]] for link in links if "addr_info" in link]
        ours = (row for row in rows if any(ip_address(one) in subnet for one in row))
        return next((one for row in ours for one in row if one.startswith("fe80")), None)

    address = wait_for(kernels_own, DEADLINE, "the address that the kernel gives")
    assert ask(place, "vision", [(f"{address}%eth0", PORT)]) == [""]


def test_the_doctor_says_that_rules_hold(place: Town) -> None:
    assert "one for each tenant" in place.server.cli("doctor", "--docker-host", place.engine.host, check=False).out


def test_down_takes_networks_and_rules_along_and_up_brings_them_back(place: Town) -> None:
    listener(place, "vision")
    assert place.networks()
    assert place.chains()
    place.server.cli("down")
    assert (place.networks(), place.chains()) == ([], [])
    place.server.start()
    assert place.server.cli("run", *SMALL, IMAGE, "--", "echo", "own").out == "own\n"
    assert place.networks() == [], "the server's own tenant is on the engine's default network"
    said = place.server.cli("run", *SMALL, IMAGE, "--", "echo", "back", environ=place.server.as_tenant("vision"))
    assert (said.out, len(place.networks())) == ("back\n", 1)
    assert place.chains()
    place.server.stop()
    place.server.cli("down", "--purge", "--yes")
    assert (place.networks(), place.chains()) == ([], [])
    place.server.start()


def listener(place: Town, tenant: str) -> str:
    """The address of a run of that tenant that answers with its name."""
    name, who = f"listens-{tenant}", place.server.as_tenant(tenant)
    if place.server.cli("get", "job", name, check=False, environ=who).code:
        script = ("--env", f"TENANT={tenant}", IMAGE, "--", "sh", "-c", LISTEN)
        place.server.cli("run", "--detach", "--name", name, *SMALL, *script, environ=who)

    def address() -> str:
        job = place.server.cli("get", "job", name, "-o", "json", environ=who).json()
        if job["status"]["state"] != "RUNNING":
            return ""
        networks = place.engine.inspect(f"{job['metadata']['uid']}-1")["NetworkSettings"]["Networks"]
        return next((str(one["IPAddress"]) for one in networks.values()), "")

    found = wait_for(address, DEADLINE, f"the listener of {tenant} to run")
    wait_for(lambda: on_node(place, found) == tenant, DEADLINE, f"the listener of {tenant} to answer")
    return found


def ask(place: Town, tenant: str, targets: list[tuple[str, int]]) -> list[str]:
    """What a run of that tenant hears from each."""
    words = [word for address, port in targets for word in (address, str(port))]
    script = f"{SETTLED}; while [ $# -gt 0 ]; do echo :$({ASK}); shift 2; done"
    run = ("run", *SMALL, IMAGE, "--", "sh", "-c", script, "ask", *words)
    said = place.server.cli(*run, environ=place.server.as_tenant(tenant))
    return [line.strip().removeprefix(":") for line in said.out.splitlines()]


def on_node(place: Town, address: str) -> str:
    return place.on_node("busybox", "nc", "-w", "3", address, str(PORT)).strip()
