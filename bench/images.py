"""image-sync beside the seed's way (one node after the other, four ssh processes at once) and beside `ssh` itself.

`python -m bench.images` needs root and the real parts (`tools/parts`): it starts Docker Engines, sshd's and a registry.
`python -m bench.images limited`, `unlimited`, `peers` or `throughput` prints that figure alone.
"""

import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
from tests.images import making
from tests.images.lab import PATH, Lab, LabNode, a_lab, docker
from tests.parts.dockerd import DockerEngine

from bench.links import LimitedLink
from windlass.images.relay import Target, relay
from windlass.images.ssh import Shell

NODES = 4
IMAGES = 40
IMAGE_BYTES = 600_000
LINK = 1_000_000
SLOWEST_LINK = 900_000
MIB = 1 << 20
SYNC = "from windlass.images.command import image_sync; image_sync(prog_name='image-sync')"
GROUP = "from windlass.images.command import images; images(prog_name='images')"


def main(chosen: Sequence[str] = ()) -> None:
    figures: dict[str, Callable[[], None]] = {
        "limited": limited,
        "unlimited": unlimited,
        "peers": peers,
        "throughput": throughput,
    }
    for name in chosen or figures:
        figures[name]()
        sys.stdout.flush()


def limited() -> None:
    """(a) Every node behind a link of its own: all nodes together take as long as the slowest alone."""
    with _pull_cluster() as cluster:
        for link, rate in zip(cluster.links, [LINK] * (NODES - 1) + [SLOWEST_LINK], strict=True):
            link.bytes_per_second = rate
        alone = cluster.ours(cluster.nodes[-1:])
        together = cluster.ours(cluster.nodes)
        seed = cluster.seed(cluster.nodes)
    print(f"limited links, {NODES} nodes × {IMAGES} images of {IMAGE_BYTES // 1000} kB, {LINK / 1e6:.1f} MB/s a node")
    print(f"  slowest node alone {alone:6.1f} s")
    print(f"  all nodes          {together:6.1f} s   × {together / alone:.2f} of the slowest alone (goal ≤ 1.15)")
    print(f"  the seed's way     {seed:6.1f} s   × {seed / together:.2f} of ours (goal ≥ 3)")


def unlimited() -> None:
    """(b) No limit but the processor: never slower than the seed's way. Turn by turn, the best of three each."""
    with _pull_cluster() as cluster:
        ours, seed = [], []
        for _ in range(3):
            ours.append(cluster.ours(cluster.nodes))
            seed.append(cluster.seed(cluster.nodes))
    print(f"loopback without limits, {NODES} nodes × {IMAGES} images")
    print(f"  image-sync     {min(ours):6.1f} s   {' '.join(f'{t:.1f}' for t in ours)}")
    print(f"  the seed's way {min(seed):6.1f} s   {' '.join(f'{t:.1f}' for t in seed)}")
    print(f"  ratio          {min(seed) / min(ours):6.2f}     (goal ≥ 1)")


def peers() -> None:
    """(c) 1 GB from one node to five: each layer leaves the first node once, and only what is missing travels."""
    with a_lab() as lab, _folder() as folder:
        nodes = [lab.docker_node() for _ in range(6)]
        small, _ = _load_image(nodes[0], folder, "bench/small:1", [20] * 5)
        big, layers = _load_image(nodes[0], folder, "bench/big:1", [200] * 5)
        _load_image(nodes[1], folder, "bench/part:1", [], layers[:2])
        config = lab.config_file(folder / "bench.conf", nodes, "", folder / "logs")
        base = ["-c", str(config), "--prefix", "bench/", "--json"]
        _, small_memory, _ = _run(GROUP, "copy", small, *base)
        seconds, memory, report = _run(GROUP, "copy", big, *base)
        assert len({node.ids()[big] for node in nodes}) == 1, "digests differ"
        traffic = report["traffic"]
        size = sum(path.stat().st_size for path in layers)
        print(f"peer copy of {size / 1e9:.2f} GB to 5 nodes, the first of which has 2 of its 5 layers")
        print(f"  {seconds:.1f} s; digests equal on all six")
        for number, node in enumerate(nodes):
            moved = traffic.get(node.name, {"sent": 0, "received": 0})
            print(f"  node {number}: sent {moved['sent'] / 1e9:5.2f} GB, received {moved['received'] / 1e9:5.2f} GB")
        print(f"  memory at most {memory:.0f} MiB; {small_memory:.0f} MiB for an image of a tenth (goal: flat)")


def throughput() -> None:
    """(c) A stream from node to node through us, beside `ssh a cat | ssh b`. Turn by turn, the median of five."""
    with a_lab() as lab, _folder() as folder:
        source, target = (LabNode(lab.ssh_node({"PATH": PATH}), dict, folder) for _ in range(2))
        blob = folder / "blob"
        with blob.open("wb") as file:
            for _ in range(512):
                file.write(os.urandom(MIB))
        theirs, ours = [], []
        for _ in range(5):
            theirs.append(_ssh_stream(source, target, blob))
            ours.append(_our_stream(lab, source, target, blob, folder))
    rates = [blob_bytes / 1e6 for blob_bytes in (512 * MIB / statistics.median(t) for t in (theirs, ours))]
    print("a stream from node to node through this machine")
    print(f"  ssh | ssh {rates[0]:6.0f} MB/s")
    print(f"  ours      {rates[1]:6.0f} MB/s   × {rates[1] / rates[0]:.2f} (goal ≥ 0.9)")


class _PullCluster:
    """An origin that has every image, and nodes that pull through links of their own under one common name."""

    def __init__(self, lab: Lab, folder: Path, origin: LabNode, nodes: list[LabNode], links: list[LimitedLink]) -> None:
        self.nodes, self.links = nodes, links
        self._lab, self._folder, self._origin = lab, folder, origin
        self._names = [f"bench/app{number}:1" for number in range(IMAGES)]
        for name in self._names:
            making.push(
                lab.registry.address, name.partition(":")[0], ["1"], [making.layer({"x": os.urandom(IMAGE_BYTES)})]
            )
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda name: origin.ssh.run("docker", "pull", "-q", name), self._names))
        self._ids = {name: image_id for name, image_id in origin.ids().items() if name in self._names}
        assert len(self._ids) == IMAGES

    def ours(self, nodes: list[LabNode]) -> float:
        self._empty()
        config = self._lab.config_file(self._folder / "bench.conf", [self._origin, *nodes], "", self._folder / "logs")
        seconds, _, report = _run(SYNC, "-c", str(config), "--prefix", "bench/", "--json")
        assert report["even"], report
        self._check(nodes)
        return seconds

    def seed(self, nodes: list[LabNode]) -> float:
        """As the seed draws it: check and list every node, then node after node, four ssh processes at a time."""
        self._empty()
        begun = time.perf_counter()
        for node in [self._origin, *nodes]:
            assert node.ssh.run("echo", "ok").returncode == 0
            node.ssh.run("docker", "images", "--format", "json")
        for node in nodes:
            with ThreadPoolExecutor(4) as pool:
                done = pool.map(
                    lambda name, at=node: at.ssh.run("timeout", "1800", "docker", "pull", name, timeout=600),
                    self._names,
                )
                assert all(one.returncode == 0 for one in done)
        seconds = time.perf_counter() - begun
        self._check(nodes)
        return seconds

    def _check(self, nodes: list[LabNode]) -> None:
        assert all(node.ids() == self._ids for node in nodes), "digests differ"

    def _empty(self) -> None:
        for node in self.nodes:
            if ids := set(node.ids().values()):
                docker(node.ssh._environment["DOCKER_HOST"], "rmi", "-f", *ids)


@contextlib.contextmanager
def _pull_cluster() -> Iterator[_PullCluster]:
    """Docker asks a mirror first for names of the default registry, so every node has the same names and its own link."""
    with a_lab() as lab, _folder() as folder, contextlib.ExitStack() as stack:
        links = [stack.enter_context(LimitedLink(lab.registry.port)) for _ in range(NODES)]
        nodes = []
        for port in (lab.registry.port, *(link.port for link in links)):
            engine = stack.enter_context(DockerEngine(arguments=(f"--registry-mirror=http://127.0.0.1:{port}",)))
            host = f"unix://{engine.socket}"
            ssh = lab.ssh_node({"DOCKER_HOST": host, "PATH": PATH})
            nodes.append(LabNode(ssh, lambda host=host: _plain_ids(host), folder))
        yield _PullCluster(lab, folder, nodes[0], nodes[1:], links)


def _plain_ids(host: str) -> dict[str, str]:
    rows = docker(host, "image", "ls", "--no-trunc", "--format", "{{.Repository}}:{{.Tag}} {{.ID}}").split("\n")
    return dict(row.split() for row in rows if row)


def _run(script: str, *arguments: str) -> tuple[float, float, dict]:  # type: ignore[type-arg]
    """(seconds, peak memory in MiB, report) of a command in a process of its own."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begun
    errors = process.stderr.read().decode() if process.stderr else ""
    assert os.waitstatus_to_exitcode(status) == 0, out.decode() + errors
    return seconds, usage.ru_maxrss / 1024, json.loads(out)


def _load_image(
    node: LabNode, folder: Path, name: str, sizes_mib: list[int], layers: list[Path] | None = None
) -> tuple[str, list[Path]]:
    made = list(layers or [])
    for size in sizes_mib:
        path = folder / f"layer{len(list(folder.iterdir()))}.tar"
        making.write_layer(path, size * MIB)
        made.append(path)
    archive = folder / "image.tar"
    making.write_archive(archive, name, made)
    host = node.ssh._environment["DOCKER_HOST"]
    with archive.open("rb") as file:
        subprocess.run(["docker", "-H", host, "load", "-q"], stdin=file, check=True, capture_output=True)
    archive.unlink()
    return name, made


def _ssh_stream(source: LabNode, target: LabNode, blob: Path) -> float:
    begun = time.perf_counter()
    sending = subprocess.Popen(source.ssh.client(f"cat {blob}"), stdout=subprocess.PIPE)
    subprocess.run(target.ssh.client("dd of=/dev/null bs=1M status=none"), stdin=sending.stdout, check=True)
    assert sending.wait() == 0
    return time.perf_counter() - begun


def _our_stream(lab: Lab, source: LabNode, target: LabNode, blob: Path, folder: Path) -> float:
    config = lab.config([source, target], "", folder)
    sender, receiver = (Shell(address, config.settings) for address in config.nodes)

    async def stream() -> None:
        load = ("dd", "of=/dev/null", "bs=1M", "status=none")
        targets = [Target(node="target", shell=receiver, load=load)]
        relayed = await relay(sender, [("cat", str(blob))], targets, timeout_seconds=600)
        assert relayed.arrivals[0].exit == 0
        assert relayed.sent_bytes == blob.stat().st_size
        await sender.close()
        await receiver.close()

    begun = time.perf_counter()
    anyio.run(stream)
    return time.perf_counter() - begun


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="wl-bench-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
