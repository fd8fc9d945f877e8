"""A small cluster of real nodes: an sshd each, and behind it a Docker Engine or a containerd of its own.

Engines live as long as the tests of this folder, for they take seconds to start; each test has a registry path of its own, and
so images of its own.
"""

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.images import making
from tests.images.crictl import crictl
from tests.parts import present
from tests.parts.containerd import Containerd
from tests.parts.dockerd import DockerEngine
from tests.parts.registry import Registry
from tests.parts.sshd import SshNode, make_key
from windlass.images.config import Address, Config
from windlass.images.settings import Settings

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class LabNode:
    """A node as image-sync sees it (`name`), and what it really has (`ids`)."""

    def __init__(self, ssh: SshNode, ids: Callable[[], dict[str, str]], storage: Path) -> None:
        self.ssh = ssh
        self.name = f"{ssh.user}@{ssh.address}:{ssh.port}"
        self.ids = ids
        """Name → config digest, asked of the engine itself and not over ssh."""
        self.storage = storage


class Lab:
    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self.directory = Path(tempfile.mkdtemp(prefix="wl-lab-"))
        stack.callback(shutil.rmtree, self.directory, ignore_errors=True)
        self.key = self.directory / "key"
        make_key(self.key)
        self.registry = stack.enter_context(Registry())
        self._docker: list[LabNode] = []
        self._containerd: list[LabNode] = []
        self._numbers = itertools.count(1)

    def docker(self, count: int) -> list[LabNode]:
        while len(self._docker) < count:
            self._docker.append(self.docker_node())
        return self._docker[:count]

    def containerd(self, count: int) -> list[LabNode]:
        while len(self._containerd) < count:
            self._containerd.append(self._containerd_node())
        return self._containerd[:count]

    def docker_node(self, storage_bytes: int | None = None) -> LabNode:
        """An engine of its own; with `storage_bytes`, on a disk of that size."""
        directory = Path(tempfile.mkdtemp(prefix="wl-eng-"))
        self._stack.callback(shutil.rmtree, directory, ignore_errors=True)
        if storage_bytes:
            self._small_disk(directory / "data", storage_bytes)
        engine = self._stack.enter_context(DockerEngine(directory, live_restore=False))
        host = f"unix://{engine.socket}"
        ssh = self.ssh_node({"DOCKER_HOST": host, "PATH": PATH})
        return LabNode(ssh, lambda: docker_ids(host), directory / "data")

    def ssh_node(self, environment: dict[str, str]) -> SshNode:
        return self._stack.enter_context(SshNode(key=self.key, environment=environment))

    def scripted_node(self, programs: dict[str, str], environment: dict[str, str] | None = None) -> LabNode:
        """A node whose runtimes are scripts: for what no real engine would do."""
        folder = self.directory / f"bin{next(self._numbers)}"
        folder.mkdir()
        for name, script in programs.items():
            (folder / name).write_text(f"#!/bin/sh\n{script}\n")
            (folder / name).chmod(0o755)
        # Only what a node needs besides, and no real container runtime.
        for tool in (
            "sh",
            "env",
            "timeout",
            "echo",
            "uname",
            "df",
            "sleep",
            "cat",
            "tar",
            "touch",
            "kill",
            "head",
            "tr",
        ):
            (folder / tool).exists() or (folder / tool).symlink_to(present.program(tool))
        ssh = self.ssh_node({**(environment or {}), "PATH": str(folder)})
        return LabNode(ssh, dict, folder)

    def shelf(self, images: dict[str, str], more: str = "") -> LabNode:
        """A node whose docker lists these (name → config digest) and can do nothing but what `more` adds to its `case`."""
        listed = [{"Id": image_id, "RepoTags": [name], "Size": 1000} for name, image_id in images.items()]
        path = self.directory / f"shelf{next(self._numbers)}.json"
        path.write_text(json.dumps(listed))
        return self.scripted_node(
            {
                "docker": f"""case "$1 $2" in
                  version*) exit 0;;
                  "image ls") {"; ".join(f"echo {image_id}" for image_id in images.values()) or ":"};;
                  "image inspect") cat {path};;
                  {more}
                esac"""
            }
        )

    def podman_node(self) -> LabNode:
        """Podman with a store of its own, and no other runtime in sight."""
        folder = self.directory / f"podman{next(self._numbers)}"
        folder.mkdir()
        (folder / "storage.conf").write_text(
            f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/root"\nrunroot = "{folder}/run"\n'
        )
        (folder / "registries.conf").write_text(
            f'[[registry]]\nlocation = "{self.registry.address}"\ninsecure = true\n'
        )
        environment = {
            "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
            "CONTAINERS_REGISTRIES_CONF": str(folder / "registries.conf"),
        }
        program = present.program("podman")
        node = self.scripted_node({"podman": f'PATH={PATH} exec {program} "$@"'}, environment)

        def ids() -> dict[str, str]:
            found = json.loads(node.ssh.run("podman", "images", "--no-trunc", "--format", "json").stdout or "[]")
            return {tag: f"sha256:{image['Id']}" for image in found for tag in image.get("Names") or []}

        node.ids = ids
        return node

    def repository(self) -> str:
        """A path in the registry that no other test uses; it ends in a slash, as a prefix does."""
        return f"t{os.getpid()}x{next(self._numbers)}/"

    def push(self, repository: str, tag: str, *layers: bytes, created: str = "2024-01-01T00:00:00Z") -> str:
        """Put an image into the registry; its full name."""
        making.push(self.registry.address, repository, [tag], layers, created=created)
        return f"{self.registry.address}/{repository}:{tag}"

    def known_hosts(self, nodes: list[LabNode]) -> Path:
        path = self.directory / f"known_hosts{next(self._numbers)}"
        path.write_text("".join(f"{node.ssh.known_hosts_line}\n" for node in nodes))
        return path

    def config(self, nodes: list[LabNode], prefix: str, log_dir: Path, **settings: object) -> Config:
        chosen = {
            "ssh_key": str(self.key),
            "ssh_known_hosts": str(self.known_hosts(nodes)),
            "min_free_bytes": 0,
            "retries": 0,
            "ssh_connect_timeout_seconds": 60,
            **settings,
        }
        addresses = tuple(Address(node.name, node.ssh.address, node.ssh.user, node.ssh.port) for node in nodes)
        return Config(
            nodes=addresses,
            prefixes=(f"{self.registry.address}/{prefix}",),
            log_dir=log_dir,
            settings=Settings(**chosen),  # type: ignore[arg-type]
        )

    def config_file(self, path: Path, nodes: list[LabNode], prefix: str, log_dir: Path, **settings: object) -> Path:
        lines = [f'NODE{number}="{node.name}"' for number, node in enumerate(nodes, 1)]
        lines += [f'PREFIX1="{self.registry.address}/{prefix}"', f'LOG_DIR="{log_dir}"']
        chosen = {
            "SSH_KEY": self.key,
            "SSH_KNOWN_HOSTS": self.known_hosts(nodes),
            "MIN_FREE": 0,
            "RETRIES": 0,
            "SSH_CONNECT_TIMEOUT": 60,
            **settings,
        }
        lines += [f'{key}="{value}"' for key, value in chosen.items()]
        path.write_text("\n".join(lines) + "\n")
        return path

    def _containerd_node(self) -> LabNode:
        binary = crictl()
        folder = self.directory / f"bin{next(self._numbers)}"
        folder.mkdir()
        (folder / "crictl").symlink_to(binary)
        directory = Path(tempfile.mkdtemp(prefix="wl-ctr-"))
        self._stack.callback(shutil.rmtree, directory, ignore_errors=True)
        _trust_loopback(directory / "certs.d", self.registry.address)
        engine = self._stack.enter_context(Containerd(directory, cri=True))
        environment = {
            "CONTAINER_RUNTIME_ENDPOINT": engine.runtime_endpoint,
            "CONTAINERD_ADDRESS": str(engine.socket),
            "PATH": f"{folder}:{PATH}",
        }
        return LabNode(
            self.ssh_node(environment), lambda: crictl_ids(binary, engine.runtime_endpoint), directory / "root"
        )

    def _small_disk(self, path: Path, size: int) -> None:
        path.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], check=True)
        self._stack.callback(subprocess.run, ["umount", "--lazy", str(path)], check=False, capture_output=True)


@contextlib.contextmanager
def a_lab() -> Iterator[Lab]:
    with contextlib.ExitStack() as stack:
        yield Lab(stack)


def docker(host: str, *arguments: str, stdin: bytes | None = None) -> str:
    command = [present.program("docker"), "-H", host, *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, check=True, timeout=600).stdout.decode()


def docker_ids(host: str) -> dict[str, str]:
    ids = docker(host, "image", "ls", "-q", "--no-trunc").split()
    found = json.loads(docker(host, "image", "inspect", *dict.fromkeys(ids))) if ids else []
    return {tag: image["Id"] for image in found for tag in image["RepoTags"] or []}


def crictl_ids(binary: Path, endpoint: str) -> dict[str, str]:
    command = [str(binary), "--runtime-endpoint", endpoint, "--image-endpoint", endpoint, "images", "-o", "json"]
    done = subprocess.run(command, capture_output=True, check=True, timeout=240)
    return {tag: image["id"] for image in json.loads(done.stdout)["images"] or [] for tag in image["repoTags"] or []}


def _trust_loopback(folder: Path, registry: str) -> None:
    """With a config path set, containerd's CRI asks there how to reach a registry."""
    place = folder / registry
    place.mkdir(parents=True)
    (place / "hosts.toml").write_text(f'server = "http://{registry}"\n')
