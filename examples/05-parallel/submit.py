"""Twenty jobs in one durable request, followed as they end, results gathered. The HTTP API and the standard library only."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

COUNT = 20
BATCH = "squares"
OVER = {"SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED"}

opened = subprocess.run(["windlass", "open"], capture_output=True, text=True, check=True).stdout.strip()
URL, _, TOKEN = opened.partition("/#token=")


def main() -> int:
    manifests = [manifest(n, image=image_to_use()) for n in range(1, COUNT + 1)]
    accepted = ask("POST", "/api/v1/jobs/bulk", {"items": manifests})["items"]
    print(f"{len(accepted)} jobs accepted in one request")

    ended = wait_for({job["name"] for job in accepted})
    failed = [name for name, state in ended.items() if state != "SUCCEEDED"]
    print(f"{len(ended) - len(failed)} succeeded, {len(failed)} failed")

    squares = [
        int(ask_bytes("GET", f"/api/v1/jobs/{job['name']}/artifacts?path=square&format=file")) for job in accepted
    ]
    print(f"1² + 2² + … + {COUNT}² = {sum(squares)}")
    for job in accepted:
        ask_bytes("DELETE", f"/api/v1/jobs/{job['name']}?volume=true")
    return len(failed)


def manifest(n: int, *, image: str | None) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "command": ["sh", "-c", f"expr {n} '*' {n} > $WINDLASS_ARTIFACTS/square"],
        "resources": {"cpu": "100m", "memory": "32Mi"},
    }
    if image:
        spec["image"] = image
    return {
        "apiVersion": "windlass.dev/v1",
        "kind": "Job",
        "metadata": {"name": f"{BATCH}-{n}", "labels": {"batch": BATCH}},
        "spec": spec,
    }


def wait_for(names: set[str]) -> dict[str, str]:
    """A list, then every change after it: nothing falls between the two, because both carry the revision."""
    page = ask("GET", f"/api/v1/jobs?label={quote(f'batch={BATCH}')}&limit=1000")
    ended = {job["metadata"]["name"]: job["status"]["state"] for job in page["items"] if job["status"]["state"] in OVER}
    if names <= ended.keys():
        return ended
    for job in changes(after=page["revision"]):
        name, state = job["metadata"]["name"], job["status"]["state"]
        if name in names and state in OVER:
            ended[name] = state
        if names <= ended.keys():
            break
    return ended


def changes(*, after: int) -> Iterator[dict[str, Any]]:
    """Server-sent events; each `job` event carries the whole manifest."""
    with request("GET", f"/api/v1/events?after={after}") as stream:
        event = ""
        for raw in stream:
            name, _, value = raw.decode().rstrip("\n").partition(": ")
            if name == "event":
                event = value
            elif name == "data" and event == "job":
                yield json.loads(value)


def image_to_use() -> str | None:
    """None where the server runs plain processes."""
    return "busybox" if ask("GET", "/api/v1/version")["runtimeKind"] == "container" else None


def ask(method: str, path: str, body: Any = None) -> Any:
    return json.loads(ask_bytes(method, path, body))


def ask_bytes(method: str, path: str, body: Any = None) -> bytes:
    with request(method, path, body) as answer:
        return answer.read()


def request(method: str, path: str, body: Any = None) -> Any:
    data = json.dumps(body).encode() if body is not None else None
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    return urlopen(Request(URL + path, data=data, headers=headers, method=method), timeout=300)


if __name__ == "__main__":
    sys.exit(main())
