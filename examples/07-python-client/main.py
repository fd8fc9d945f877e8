"""The typed client: submit, follow, fetch, and what an error looks like. Run it with the Python of `.venv`."""

import os
import sys

from windlass.client.client import Client
from windlass.client.connection import find
from windlass.core.errors import Conflict, Invalid


def main() -> int:
    client = Client(find(os.environ))  # WINDLASS_URL and WINDLASS_TOKEN, else what `windlass up` wrote
    is_container = client.version()["runtimeKind"] == "container"
    manifest = {
        "apiVersion": "windlass.dev/v1",
        "kind": "Job",
        "metadata": {"name": "from-python"},
        "spec": {
            "command": [
                "sh",
                "-c",
                "echo counting; seq 3 > $WINDLASS_ARTIFACTS/numbers; cat $WINDLASS_ARTIFACTS/numbers",
            ],
            "resources": {"cpu": "100m", "memory": "32Mi"},
            **({"image": "busybox"} if is_container else {}),
        },
    }

    job = client.create(manifest)  # carries an idempotency key: a lost answer is asked for again, and there is one job
    for line in client.logs(job["metadata"]["name"], follow=True):
        print(f"  {line['stream']}: {line['text']}")

    status = client.job("from-python")["status"]
    print(f"{status['state']}, exit code {status['exitCode']}, {status['attempt']} attempt")

    with client.download("from-python", "numbers", form="file") as stream:
        print("numbers:", stream.read().split())

    try:
        client.create(manifest)
    except Conflict as error:
        print(f"refused with {error.code}: {error.message.split(' by ')[0]}")
    try:
        client.create({**manifest, "metadata": {}, "spec": {**manifest["spec"], "retries": "many"}})
    except Invalid as error:
        print("refused with", [f"{fault.field}: {fault.message}" for fault in error.faults])

    client.delete("from-python", volume=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
