"""The servers of a cluster, each as a part: they run in the cluster's own namespaces, on fixed ports of its own address."""

import http.client
import json
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from tests.kube.coredns import coredns
from tests.parts import present, remains
from tests.parts.containerd import Containerd
from tests.parts.namespace import Namespace
from tests.parts.process import ServerProcess
from tests.parts.traces import Traces

API_PORT, ETCD_PORT = 6443, 2379
SERVICES = "10.96.0.0/16"
PODS = "10.244.0.0/24"
DOMAIN = "cluster.local"
NODE = "node1"
PAUSE = "windlass-test/pause:1"


class Place(Protocol):
    """What a part must know of the cluster it belongs to."""

    directory: Path
    pki: Path
    binaries: Path
    address: str
    namespace: Namespace

    def get(self, path: str) -> tuple[int, Any]: ...


class Part(ServerProcess):
    """A program of the cluster."""

    def __init__(self, place: Place) -> None:
        super().__init__(place.directory / self.name)
        self.place = place

    def inside(self, program: str, *arguments: str) -> list[str]:
        return self.place.namespace.inside(str(self.place.binaries / program), *arguments)

    def kubeconfig(self, of: str) -> list[str]:
        file = self.place.pki / f"{of}.conf"
        return [f"--{kind}={file}" for kind in ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")]


class KubeEtcd(Part):
    name = "etcd"

    def command(self) -> list[str]:
        client, peer = f"http://{self.place.address}:{ETCD_PORT}", f"http://{self.place.address}:2380"
        return self.place.namespace.inside(
            present.program("etcd"),
            "--name=test",
            f"--data-dir={self.directory / 'data'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=test={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )

    def is_ready(self) -> bool:
        return _answers(http.client.HTTPConnection(self.place.address, ETCD_PORT, timeout=5), "/health")


class ApiServer(Part):
    name = "apiserver"
    ready_deadline_seconds = 120

    def command(self) -> list[str]:
        pki = self.place.pki
        return self.inside(
            "kube-apiserver",
            f"--etcd-servers=http://{self.place.address}:{ETCD_PORT}",
            f"--bind-address={self.place.address}",
            f"--advertise-address={self.place.address}",
            f"--secure-port={API_PORT}",
            f"--tls-cert-file={pki / 'apiserver.crt'}",
            f"--tls-private-key-file={pki / 'apiserver.key'}",
            f"--client-ca-file={pki / 'ca.crt'}",
            f"--cert-dir={self.directory}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={pki / 'sa.pub'}",
            f"--service-account-signing-key-file={pki / 'sa.key'}",
            f"--service-cluster-ip-range={SERVICES}",
            f"--kubelet-client-certificate={pki / 'kubelet-client.crt'}",
            f"--kubelet-client-key={pki / 'kubelet-client.key'}",
            f"--kubelet-certificate-authority={pki / 'ca.crt'}",
            "--kubelet-preferred-address-types=InternalIP",
        )

    def is_ready(self) -> bool:
        return self.place.get("/readyz")[0] == 200

    def stop(self) -> None:
        """At once: asked, it would wait a minute for those who still watch, and all it knows is thrown away anyway."""
        self.kill()


class ControllerManager(Part):
    name = "controllers"
    ready_deadline_seconds = 60

    def command(self) -> list[str]:
        pki = self.place.pki
        return self.inside(
            "kube-controller-manager",
            *self.kubeconfig("controllers"),
            f"--bind-address={self.place.address}",
            "--leader-elect=false",
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={pki / 'sa.key'}",
            f"--root-ca-file={pki / 'ca.crt'}",
            f"--flex-volume-plugin-dir={self.directory / 'flex'}",
            # A node that stopped is noticed within the patience of a test, not of an operator.
            "--node-monitor-period=1s",
            "--node-monitor-grace-period=20s",
            # And a volume that was made while it looked away.
            "--pvclaimbinder-sync-period=5s",
            # Each controller asks twenty times a second at most, for the sake of all others; here there are no others.
            "--kube-api-qps=200",
            "--kube-api-burst=300",
        )

    def is_ready(self) -> bool:
        return self.place.get("/api/v1/namespaces/default/serviceaccounts/default")[0] == 200


class Scheduler(Part):
    name = "scheduler"

    def command(self) -> list[str]:
        address = f"--bind-address={self.place.address}"
        return self.inside("kube-scheduler", *self.kubeconfig("scheduler"), address, "--leader-elect=false")

    def is_ready(self) -> bool:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # it signs its own; only its health is asked
        return _answers(http.client.HTTPSConnection(self.place.address, 10259, timeout=5, context=context), "/healthz")


class Proxy(Part):
    """Makes service addresses reach their pods; only what runs in the cluster and asks the API server needs it."""

    name = "proxy"

    def command(self) -> list[str]:
        return self.inside(
            "kube-proxy",
            f"--kubeconfig={self.place.pki / 'proxy.conf'}",
            f"--hostname-override={NODE}",
            "--proxy-mode=iptables",
            f"--cluster-cidr={PODS}",
            f"--healthz-bind-address={self.place.address}:10256",
            f"--metrics-bind-address={self.place.address}:10249",
            # What it would set for the whole machine; a network namespace has no say in it.
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0s",
            "--conntrack-tcp-timeout-close-wait=0s",
        )

    def is_ready(self) -> bool:
        return _answers(http.client.HTTPConnection(self.place.address, 10256, timeout=5), "/healthz")


class Dns(Part):
    """Names of services, for pods. Beside the node's other servers and not as pods of its own: a cluster for tests starts often."""

    name = "dns"

    def prepare(self) -> None:
        lines = (
            ".:53 {",
            f"  bind {self.place.address}",
            "  errors",
            f"  ready {self.place.address}:8181",
            f"  kubernetes {DOMAIN} in-addr.arpa {{",
            f"    kubeconfig {self.place.pki / 'dns.conf'}",
            "  }",
            "}",
        )
        (self.directory / "Corefile").write_text("\n".join(lines) + "\n")

    def command(self) -> list[str]:
        return self.place.namespace.inside(str(coredns()), f"-conf={self.directory / 'Corefile'}")

    def is_ready(self) -> bool:
        return _answers(http.client.HTTPConnection(self.place.address, 8181, timeout=5), "/ready")


class KubeContainerd(Containerd):
    """In the cluster's mount namespace, with a bridge for pods in its network namespace."""

    name = "containerd"

    def __init__(self, place: Place) -> None:
        super().__init__(place.directory / "containerd", cri=True)
        self._place = place

    def prepare(self) -> None:
        super().prepare()
        ipam = {"type": "host-local", "dataDir": str(self.directory / "ipam"), "ranges": [[{"subnet": PODS}]]}
        ipam["routes"] = [{"dst": "0.0.0.0/0"}]
        bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": True, "ipam": ipam}
        network = {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}
        (self.directory / "cni" / "10-pods.conflist").write_text(json.dumps(network))

    def command(self) -> list[str]:
        return self._place.namespace.inside(*super().command())


class Kubelet(Part):
    name = "kubelet"
    ready_deadline_seconds = 120

    def __init__(self, place: Place, cgroup: str, runtime_endpoint: str) -> None:
        super().__init__(place)
        self.cgroup = cgroup
        self._runtime_endpoint = runtime_endpoint

    def prepare(self) -> None:
        for controller in remains.CGROUPS.iterdir():
            if controller.is_dir():
                (controller / self.cgroup).mkdir(exist_ok=True)
        (self.directory / "kubelet.yaml").write_text(json.dumps(self._configuration()))

    def command(self) -> list[str]:
        return self.inside(
            "kubelet",
            f"--config={self.directory / 'kubelet.yaml'}",
            f"--kubeconfig={self.place.pki / 'kubelet.conf'}",
            f"--root-dir={self.place.directory / 'node'}",
            f"--cert-dir={self.directory}",
            f"--hostname-override={NODE}",
            f"--node-ip={self.place.address}",
            "--v=2",
        )

    def is_ready(self) -> bool:
        status, node = self.place.get(f"/api/v1/nodes/{NODE}")
        conditions = node.get("status", {}).get("conditions", []) if status == 200 else []
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    def traces(self) -> Traces:
        return replace(super().traces(), cgroup=self.cgroup)

    def _configuration(self) -> dict[str, Any]:
        pki = self.place.pki
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.place.address,
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.cgroup}",
            "failSwapOn": False,
            "imagePullCredentialsVerificationPolicy": "NeverVerify",
            "containerRuntimeEndpoint": self._runtime_endpoint,
            "tlsCertFile": str(pki / "kubelet-server.crt"),
            "tlsPrivateKeyFile": str(pki / "kubelet-server.key"),
            "authentication": {"anonymous": {"enabled": False}, "x509": {"clientCAFile": str(pki / "ca.crt")}},
            "authorization": {"mode": "Webhook"},
            "resolvConf": "/etc/resolv.conf",
            "clusterDNS": [self.place.address],
            "clusterDomain": DOMAIN,
            "podLogsDir": str(self.directory / "pods"),
            "volumePluginDir": str(self.directory / "flex"),
            "makeIPTablesUtilChains": False,
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1Gi", "imagefs.available": "1Gi"},
            "imageGCHighThresholdPercent": 100,
            "nodeStatusUpdateFrequency": "4s",
            "nodeLeaseDurationSeconds": 8,
            "maxPods": 250,
            "registryPullQPS": 0,
            "serializeImagePulls": False,
        }


def _answers(connection: http.client.HTTPConnection, path: str) -> bool:
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
