"""A whole Kubernetes node for the tests: control plane, kubelet, containerd, in namespaces of its own.

The network namespace has the fixed ports, the pods' bridge and all packet filter rules; one veth leads to it. The mount
namespace has the kubelet's mounts and the kernel settings it likes to change, which are files of ours there. So nothing of it
outlives its processes but cgroups and one bridge, and those are among its traces.
"""

import http.client
import json
import secrets
import ssl
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from tests.kube.binaries import kube_binaries
from tests.kube.coredns import has_coredns
from tests.kube.parts import (
    API_PORT,
    PAUSE,
    ApiServer,
    ControllerManager,
    Dns,
    KubeContainerd,
    KubeEtcd,
    Kubelet,
    Place,
    Proxy,
    Scheduler,
)
from tests.kube.pki import Authority, signing_key
from tests.kube.provisioner import Provisioner
from tests.parts import busybox, present, warden
from tests.parts.addresses import Slot, take_slot
from tests.parts.namespace import Namespace
from tests.parts.traces import Traces, remove_directory, sweep

TUNED = (
    "vm/overcommit_memory",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
"""What a kubelet sets for the whole machine."""


class KubeCluster(Place):
    """`kubeconfig` is the admin's. `light=True` has no node: API server and controllers only."""

    def __init__(self, *, light: bool = False) -> None:
        present.need_root("a Kubernetes node")
        self.binaries = kube_binaries()
        self.directory = Path(tempfile.mkdtemp(prefix="wl-kube-"))
        self.pki = self.directory / "pki"
        self.pki.mkdir()
        self._light = light
        self._serves = False
        self._slot: Slot | None = None
        self._context: ssl.SSLContext | None = None
        self._parts = ExitStack()
        self.cgroup = f"wltest-{secrets.token_hex(6)}"

    @property
    def kubeconfig(self) -> Path:
        return self.pki / "admin.conf"

    @property
    def server(self) -> str:
        return f"https://{self.address}:{API_PORT}"

    @property
    def host(self) -> str:
        """The address at which its pods reach this machine."""
        assert self._slot is not None
        return str(self._slot.default[1])

    @property
    def authority(self) -> Path:
        return self.pki / "ca.crt"

    def start(self) -> Self:
        self._make_network()
        self._make_certificates()
        for part in (KubeEtcd, ApiServer, ControllerManager):
            self._parts.enter_context(part(self))
        if not self._light:
            self._start_node()
        return self

    def close(self) -> None:
        try:
            self._parts.close()
        finally:
            traces = self._traces()
            self.namespace.close()
            sweep(traces)
            remove_directory(traces)
            warden.forget(self.directory)

    def kubectl(self, *arguments: str, stdin: str | None = None, namespace: str = "", check: bool = True) -> str:
        """What kubectl printed, its errors included; with `check` a failure is one here too."""
        command = [str(self.binaries / "kubectl"), f"--kubeconfig={self.kubeconfig}"]
        command += [f"--cache-dir={self.directory / 'kubectl'}"]
        command += [f"--namespace={namespace}"] if namespace else []
        done = subprocess.run(
            [*command, *arguments], input=stdin, capture_output=True, text=True, timeout=120, check=False
        )
        if check and done.returncode:
            raise AssertionError(f"kubectl {' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout + done.stderr

    def get(self, path: str) -> tuple[int, Any]:
        """One GET as admin; status 0 when nothing answers."""
        if self._context is None:
            self._context = ssl.create_default_context(cafile=str(self.authority))
            self._context.load_cert_chain(self.pki / "admin.crt", self.pki / "admin.key")
        connection = http.client.HTTPSConnection(self.address, API_PORT, timeout=60, context=self._context)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException):
            return 0, {}
        finally:
            connection.close()
        return answer.status, json.loads(body) if body.startswith(b"{") else body.decode(errors="replace")

    def import_image(self, archive: bytes) -> None:
        """A `docker save` archive, for pods."""
        self.containerd.ctr("images", "import", "-", namespace="k8s.io", stdin=archive, timeout=180)

    def serve(self) -> None:
        """From now on service addresses work, that of the API server too."""
        if not self._serves:
            self._parts.enter_context(Proxy(self))
            self._serves = True

    def _start_node(self) -> None:
        self._parts.enter_context(Scheduler(self))
        if has_coredns():
            self._parts.enter_context(Dns(self))
        self.containerd = self._parts.enter_context(KubeContainerd(self))
        self.import_image(busybox.image_archive(PAUSE, command=("sleep", "infinity")))
        self.import_image(busybox.image_archive())
        self._parts.callback(self._remove_sandboxes)
        self.kubelet = self._parts.enter_context(Kubelet(self, self.cgroup, self.containerd.runtime_endpoint))
        self._parts.enter_context(Provisioner(self.kubeconfig, self.directory / "volumes"))

    def _remove_sandboxes(self) -> None:
        """Pods outlive kubelet and containerd: through CRI they go with their networks, before anything stops."""
        crictl = [str(self.binaries / "crictl"), f"--runtime-endpoint={self.containerd.runtime_endpoint}"]
        subprocess.run([*crictl, "rmp", "--force", "--all"], capture_output=True, timeout=120, check=False)

    def _make_network(self) -> None:
        self._slot = take_slot()
        self._slot.use_bridge()
        self.address = str(self._slot.default[2])
        warden.watch(self._traces())
        self.namespace = Namespace("mount", "net", script=self._inside_script())
        warden.watch(self._traces())
        pid, link = str(self.namespace.process.pid), f"v{self._slot.bridge}"
        # The slot is ours, and so is what one before us left: its namespace lives on while a connection of it is closing.
        subprocess.run([present.program("ip"), "link", "delete", link], check=False, capture_output=True)
        _ip("link", "add", link, "master", self._slot.bridge, "type", "veth", "peer", "name", "eth0", "netns", pid)
        _ip("link", "set", link, "up")
        # No way further than this machine: nothing is pulled from anywhere.
        for line in (f"addr add {self.address}/24 dev eth0", "link set eth0 up"):
            subprocess.run(self.namespace.inside(present.program("ip"), *line.split()), check=True, capture_output=True)

    def _inside_script(self) -> str:
        """Run by a shell in the new namespaces: loopback, forwarding, shared mounts for pods, kernel settings as plain files."""
        node, tuned = self.directory / "node", self.directory / "tuned"
        node.mkdir()
        tuned.mkdir()
        lines = ["ip link set lo up", "echo 1 > /proc/sys/net/ipv4/ip_forward"]
        lines += [f"mount --bind {node} {node}", f"mount --make-rshared {node}"]
        for setting in TUNED:
            copy = tuned / setting.replace("/", ".")
            copy.write_text(Path("/proc/sys", setting).read_text())
            lines.append(f"mount --bind {copy} /proc/sys/{setting}")
        return "\n".join(lines)

    def _make_certificates(self) -> None:
        ca = Authority(self.pki, "ca")
        signing_key(self.pki)
        ca.issue(
            "apiserver", "kube-apiserver", hosts=[self.address, "10.96.0.1", "kubernetes.default.svc", "localhost"]
        )
        ca.issue("kubelet-server", "system:node:node1", groups=["system:nodes"], hosts=[self.address, "node1"])
        ca.issue("kubelet-client", "kube-apiserver-kubelet-client", groups=["system:masters"])
        ca.kubeconfig("admin", self.server, "admin", groups=["system:masters"])
        ca.kubeconfig("controllers", self.server, "system:kube-controller-manager")
        ca.kubeconfig("scheduler", self.server, "system:kube-scheduler")
        ca.kubeconfig("proxy", self.server, "system:kube-proxy")
        ca.kubeconfig("dns", self.server, "coredns", groups=["system:masters"])
        ca.kubeconfig("kubelet", self.server, "system:node:node1", groups=["system:nodes"])

    def _traces(self) -> Traces:
        bridge, claim = (self._slot.bridge, self._slot.claim) if self._slot else ("", "")
        held = (self.namespace.process,) if hasattr(self, "namespace") else ()
        return Traces(
            directory=str(self.directory), owns_directory=True, processes=held, bridge=bridge, bridge_claim=claim
        )

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()


def _ip(*arguments: str) -> None:
    subprocess.run([present.program("ip"), *arguments], check=True, capture_output=True)
