"""A cluster that somebody else runs: KUBECONFIG with USE_EXISTING_CLUSTER=true. It needs a default storage class."""

import base64
import subprocess
from pathlib import Path

import yaml

from tests.parts import present


class ExistingCluster:
    def __init__(self, kubeconfig: Path, directory: Path) -> None:
        self.kubeconfig = kubeconfig
        self._directory = directory
        document = yaml.safe_load(kubeconfig.read_text())
        cluster = document["clusters"][0]["cluster"]
        self.server: str = cluster["server"]
        self.authority = self._authority(cluster)

    def _authority(self, cluster: dict[str, str]) -> Path:
        """A file, also when the configuration has the certificate in itself."""
        if "certificate-authority" in cluster:
            return self.kubeconfig.parent / cluster["certificate-authority"]
        path = self._directory / "ca.crt"
        path.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
        return path

    def kubectl(self, *arguments: str, stdin: str | None = None, namespace: str = "", check: bool = True) -> str:
        command = [present.program("kubectl"), f"--kubeconfig={self.kubeconfig}"]
        command += [f"--namespace={namespace}"] if namespace else []
        done = subprocess.run(
            [*command, *arguments], input=stdin, capture_output=True, text=True, timeout=120, check=False
        )
        if check and done.returncode:
            raise AssertionError(f"kubectl {' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout + done.stderr
