"""A Windlass server that has the cluster as a pool, logged in with the rights that are documented for it and no more."""

import json
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.server import WindlassServer
from tests.kube.lab import Lab
from tests.kube.pki import kubeconfig
from tests.parts import busybox
from windlass.wire.kube.install import GUESTS, RUNS, SERVER

ACCOUNT = SERVER


class ClusterServer(WindlassServer):
    def __init__(self, lab: Lab, *, environ: dict[str, str] | None = None, **settings: Any) -> None:
        super().__init__(environ=environ)
        self._lab = lab
        self._settings = settings

    def prepare(self) -> None:
        super().prepare()
        if not (self.data / "windlass.toml").exists():
            self._configure()

    def close(self) -> None:
        try:
            super().close()
        finally:
            for role in (SERVER, GUESTS):  # what does not go with its namespace
                binding = f"{role}-{self._lab.namespace}"
                self._lab.kubectl("delete", "clusterrolebinding", binding, "--ignore-not-found")

    def job(self, name: str) -> dict[str, Any]:
        """Its status."""
        status: dict[str, Any] = dict(self.client().job(name)["status"])
        return status

    def run(self, name: str, script: str, *options: str, check: bool = True) -> Any:
        small = () if "--cpu" in options else ("--cpu", "100m")
        words = (*small, "--memory", "64Mi", *options, busybox.IMAGE, "--", "sh", "-c", script)
        return self.cli("run", "--name", name, "--pool", "kubernetes", *words, check=check, timeout=240)

    def _configure(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        config = self.data / "kubeconfig"
        config.write_text(yaml.safe_dump(log_in(self._lab)))
        if self._settings.get("tenants") and not self._settings.get("tenant_namespaces"):
            bind(self._lab, GUESTS, cluster_wide=True)
        settings = {"kubeconfig": str(config), "namespace": self._lab.namespace, "side_image": busybox.IMAGE}
        lines = [f"{key} = {json.dumps(value)}" for key, value in {**settings, **self._settings}.items()]
        Path(self.data, "windlass.toml").write_text("\n".join(["[kubernetes]", *lines, ""]))


def log_in(lab: Lab) -> dict[str, Any]:
    """A kubeconfig of a service account that the two roles are bound to, as the guide says."""
    lab.kubectl("create", "serviceaccount", ACCOUNT)
    bind(lab, RUNS)
    bind(lab, SERVER, cluster_wide=True)
    token = lab.kubectl("create", "token", ACCOUNT, "--duration=2h").strip()
    return kubeconfig(lab.cluster.server, lab.cluster.authority, {"token": token})


def bind(lab: Lab, role: str, *, cluster_wide: bool = False, server_of: Lab | None = None) -> None:
    """To the server of this namespace, or of another. Where the operator's namespaces are named, the role is in each."""
    who = f"--serviceaccount={(server_of or lab).namespace}:{ACCOUNT}"
    if cluster_wide:
        lab.kubectl("create", "clusterrolebinding", f"{role}-{lab.namespace}", f"--clusterrole={role}", who)
        return
    kind = "role" if lab.kubectl("get", "role", role, "--ignore-not-found") else "clusterrole"
    lab.kubectl("create", "rolebinding", role, f"--{kind}={role}", who)
