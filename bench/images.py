"""image-sync beside the seed's way (one node after the other, four ssh processes at once) and beside `ssh` itself.

`python -m bench.images` needs root and the real parts (`tools/parts`): it starts Docker Engines, sshd's and a registry.
`python -m bench.images limited`, `unlimited`, `peers` or `throughput` prints that figure alone; `--smoke` does the same in
small, to see that it works: its figures mean nothing.
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
from msgspec import Struct
from tests.images import making
from tests.images.lab import PATH, Lab, LabNode, a_lab, docker
from tests.parts.dockerd import DockerEngine

from bench.links import LimitedLink
from bench.report import Figure, at_least, at_most, show
from windlass.images.relay import Target, relay
from windlass.images.ssh import Shell

NODES = 4
LINK = 1_000_000
SLOWEST_LINK = 900_000
LAYERS = 5
HELD = 2
"""Of so many layers the second node of the peer copy has so many already."""
MIB = 1 << 20
SYNC = "from windlass.images.command import image_sync; image_sync(prog_name='image-sync')"
GROUP = "from windlass.images.command import images; images(prog_name='images')"


class Scale(Struct, frozen=True, kw_only=True):
    images: int = 40
    image_bytes: int = 600_000
    turns: int = 3
    layer_mib: int = 200
    stream_mib: int = 512
    stream_turns: int = 5


SMOKE = Scale(images=5, image_bytes=60_000, turns=1, layer_mib=10, stream_mib=16, stream_turns=1)


def main(arguments: Sequence[str] = ()) -> None:
    figures: dict[str, Callable[[Scale], list[Figure]]] = {
        "limited": limited,
        "unlimited": unlimited,
        "peers": peers,
        "throughput": throughput,
    }
    chosen = [name for name in arguments if name != "--smoke"] or list(figures)
    unknown = [name for name in chosen if name not in figures]
    if unknown:
        sys.exit(f"no such figure: {', '.join(unknown)}; there are {', '.join(figures)}")
    scale = SMOKE if "--smoke" in arguments else Scale()
    for name in chosen:
        show(f"{figures[name].__doc__}", figures[name](scale))


def limited(scale: Scale) -> list[Figure]:
    """(a) Every node behind a link of its own: all nodes together take as long as the slowest alone."""
    with _pull_cluster(scale) as cluster:
        for link, rate in zip(cluster.links, [LINK] * (NODES - 1) + [SLOWEST_LINK], strict=True):
            link.bytes_per_second = rate
        alone = cluster.ours(cluster.nodes[-1:])
        together = cluster.ours(cluster.nodes)
        seed = cluster.seed(cluster.nodes)
    what = f"{NODES} nodes × {scale.images} images of {scale.image_bytes // 1000} kB at {LINK / 1e6:.1f} MB/s a node"
    return [
        at_most(what, together, alone, 1.15, unit="s", beside="the slowest alone"),
        _times_faster("faster than the seed's way", together, seed, 3),
    ]


def unlimited(scale: Scale) -> list[Figure]:
    """(b) No limit but the processor: never slower than the seed's way. Turn by turn, the best of three each."""
    with _pull_cluster(scale) as cluster:
        ours, seed = [], []
        for _ in range(scale.turns):
            ours.append(cluster.ours(cluster.nodes))
            seed.append(cluster.seed(cluster.nodes))
    return [_times_faster(f"{NODES} nodes × {scale.images} images over loopback", min(ours), min(seed), 1)]


def peers(scale: Scale) -> list[Figure]:
    """(c) 1 GB from one node to five: each layer leaves the first node once, only what is missing travels, memory is flat."""
    with a_lab() as lab, _folder() as folder:
        nodes = [lab.docker_node() for _ in range(6)]
        small, _ = _load_image(nodes[0], folder, "bench/small:1", [max(1, scale.layer_mib // 10)] * LAYERS)
        big, layers = _load_image(nodes[0], folder, "bench/big:1", [scale.layer_mib] * LAYERS)
        _load_image(nodes[1], folder, "bench/part:1", [], layers[:HELD])
        config = lab.config_file(folder / "bench.conf", nodes, "", folder / "logs")
        base = ["-c", str(config), "--prefix", "bench/", "--json"]
        _, small_memory, _ = _run(GROUP, "copy", small, *base)
        seconds, memory, report = _run(GROUP, "copy", big, *base)
        assert len({node.ids()[big] for node in nodes}) == 1, "digests differ"
        size = sum(path.stat().st_size for path in layers)
    print(
        f"\n{size / 1e9:.2f} GB to 5 nodes, one of which has {HELD} of its {LAYERS} layers: {seconds:.1f} s; digests equal"
    )
    traffic = [report["traffic"].get(node.name, {"sent": 0, "received": 0}) for node in nodes]
    for number, moved in enumerate(traffic):
        print(f"  node {number}: sent {moved['sent'] / 1e9:5.2f} GB, received {moved['received'] / 1e9:5.2f} GB")
    missing = 4 * size + size * (LAYERS - HELD) / LAYERS
    received = sum(moved["received"] for moved in traffic)
    return [
        at_most("left the first node", traffic[0]["sent"] / 1e9, size / 1e9, 1.02, unit="GB", beside="the image"),
        at_most("received", received / 1e9, missing / 1e9, 1.02, unit="GB", beside="what was missing"),
        at_most("memory", memory, small_memory, 1.2, unit="MiB", beside="an image of a tenth"),
    ]


def throughput(scale: Scale) -> list[Figure]:
    """(c) A stream from node to node through us, beside `ssh a cat | ssh b`. Turn by turn, the median."""
    with a_lab() as lab, _folder() as folder:
        source, target = (LabNode(lab.ssh_node({"PATH": PATH}), dict, folder) for _ in range(2))
        blob = folder / "blob"
        with blob.open("wb") as file:
            for _ in range(scale.stream_mib):
                file.write(os.urandom(MIB))
        theirs, ours = [], []
        for _ in range(scale.stream_turns):
            theirs.append(_ssh_stream(source, target, blob))
            ours.append(_our_stream(lab, source, target, blob, folder))
    rates = [scale.stream_mib * MIB / 1e6 / statistics.median(taken) for taken in (ours, theirs)]
    return [at_least("a stream through this machine", *rates, 0.9, unit="MB/s", beside="ssh | ssh")]


def _times_faster(what: str, ours: float, theirs: float, wanted: float) -> Figure:
    ratio = theirs / ours
    beside = f"the seed's way {theirs:.1f} s"
    return Figure(
        what=what, ours=f"{ours:.1f} s", beside=beside, ratio=ratio, wanted=f"≥ {wanted:g}", is_met=ratio >= wanted
    )


class _PullCluster:
    """An origin that has every image, and nodes that pull through links of their own under one common name."""

    def __init__(
        self,
        lab: Lab,
        folder: Path,
        origin: LabNode,
        nodes: list[LabNode],
        links: list[LimitedLink],
        scale: Scale,
    ) -> None:
        self.nodes, self.links = nodes, links
        self._lab, self._folder, self._origin = lab, folder, origin
        self._names = [f"bench/app{number}:1" for number in range(scale.images)]
        for name in self._names:
            making.push(
                lab.registry.address,
                name.partition(":")[0],
                ["1"],
                [making.layer({"x": os.urandom(scale.image_bytes)})],
            )
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda name: origin.ssh.run("docker", "pull", "-q", name), self._names))
        self._ids = {name: image_id for name, image_id in origin.ids().items() if name in self._names}
        assert len(self._ids) == scale.images

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
def _pull_cluster(scale: Scale) -> Iterator[_PullCluster]:
    """Docker asks a mirror first for names of the default registry, so every node has the same names and its own link."""
    with a_lab() as lab, _folder() as folder, contextlib.ExitStack() as stack:
        links = [stack.enter_context(LimitedLink(lab.registry.port)) for _ in range(NODES)]
        nodes = []
        for port in (lab.registry.port, *(link.port for link in links)):
            engine = stack.enter_context(DockerEngine(arguments=(f"--registry-mirror=http://127.0.0.1:{port}",)))
            host = f"unix://{engine.socket}"
            ssh = lab.ssh_node({"DOCKER_HOST": host, "PATH": PATH})
            nodes.append(LabNode(ssh, lambda host=host: _plain_ids(host), folder))
        yield _PullCluster(lab, folder, nodes[0], nodes[1:], links, scale)


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
