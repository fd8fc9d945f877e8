"""Whose image it is: found by its name and by nothing else, and a login sent to one registry and to no other."""

import base64
import json

import pytest

from tests.docker.test_engine import opened
from tests.parts.busybox import IMAGE
from tests.parts.dockerd import DockerEngine
from tests.parts.podman import PodmanService
from tests.parts.registry import READERS, Registry
from windlass.adapters.runtime.docker import DockerRuntime
from windlass.adapters.runtime.docker.access import goes_by, registry_headers
from windlass.adapters.runtime.docker.engine import negotiate, read_facts
from windlass.core.distribution.reference import BadReference, parse_registry, registry_of
from windlass.core.model.ids import TenantId
from windlass.core.model.secret import Credentials
from windlass.ports.runtime import ImageAccess, ImageUnavailable

DIGEST = "sha256:" + "ab" * 32
RECORD = {
    "RepoTags": ["registry.example.com:5000/team/app:1", "alpine:latest", "<none>:<none>"],
    "RepoDigests": [f"registry.example.com:5000/team/app@{DIGEST}"],
}


def test_an_image_here_is_found_by_its_name_and_not_by_its_id(docker_engine: DockerEngine) -> None:
    """The engine itself answers to an id, and to the beginning of one, whoever it was pulled for."""
    whole = docker_engine.images()[IMAGE].removeprefix("sha256:")
    assert goes_by(IMAGE, docker_engine.ask(f"/images/{IMAGE}/json"), is_podman=False)
    for name in (whole, whole[:12]):
        record = docker_engine.ask(f"/images/{name}/json")
        assert IMAGE in record["RepoTags"]
        assert not goes_by(name, record, is_podman=False)


@pytest.mark.parametrize(
    ("image", "is_it"),
    [
        ("registry.example.com:5000/team/app:1", True),
        (f"registry.example.com:5000/team/app@{DIGEST}", True),
        (f"registry.example.com:5000/team/app:1@{DIGEST}", True),
        ("alpine", True),
        ("docker.io/library/alpine:latest", True),
        ("registry.example.com:5000/team/app:2", False),
        ("registry.example.com/team/app:1", False),
        (f"registry.example.com:5000/team/other@{DIGEST}", False),
        ("ab" * 32, False),
    ],
)
def test_a_name_stands_for_what_the_engine_has_under_that_name(image: str, is_it: bool) -> None:
    assert goes_by(image, RECORD, is_podman=False) is is_it


def test_podman_finds_what_was_made_here_by_its_short_name() -> None:
    made_here = {"RepoTags": ["localhost/team/app:1"]}
    assert goes_by("team/app:1", made_here, is_podman=True)
    assert not goes_by("team/app:1", made_here, is_podman=False)
    assert not goes_by("registry.example.com/team/app:1", made_here, is_podman=True)


def test_a_login_is_put_into_requests_for_its_own_registry_only() -> None:
    login = Credentials(registry="registry.example.com:5000", username="ci", password="p\u00e4ss")
    (header,) = registry_headers("registry.example.com:5000/team/app:1", login).values()
    assert json.loads(base64.urlsafe_b64decode(header)) == {
        "username": "ci",
        "password": "p\u00e4ss",
        "serveraddress": "registry.example.com:5000",
    }
    for elsewhere in ("registry.example.com/team/app:1", "registry.example.com:5001/team/app:1", "team/app:1"):
        assert registry_headers(elsewhere, login) == {}
    assert "p\u00e4ss" not in f"{login} {login!r}"


@pytest.mark.parametrize(
    ("text", "registry"),
    [
        ("registry.example.com", "registry.example.com"),
        ("Registry.Example.COM:5000", "registry.example.com:5000"),
        ("localhost", "localhost"),
        ("[::1]:5000", "[::1]:5000"),
        ("docker.io", "docker.io"),
        ("index.docker.io", "docker.io"),
    ],
)
def test_a_registry_is_called_as_images_call_it(text: str, registry: str) -> None:
    assert parse_registry(text) == registry
    assert registry_of(f"{text}/team/app:1") == registry


@pytest.mark.parametrize(
    "text",
    [
        "", "https://r.example.com", "r.example.com/team", "user@r.example.com", "r.example.com:", "r.example.com:0",
        "r.example.com:65536", "r.example.com:5000\n", "r.example.com\r\nX: y", "r.example.com\0", "-r.example.com", "word",
        "r_x.example.com", "a" * 300 + ".com", "*.example.com", "r.example.com:5000:5000",
    ],
)  # fmt: skip
def test_what_no_image_could_begin_with_is_no_registry(text: str) -> None:
    with pytest.raises(BadReference):
        parse_registry(text)


def test_an_engine_that_remaps_users_says_by_how_much() -> None:
    version = negotiate({"Version": "20.10"})
    info = {"SecurityOptions": ["name=seccomp,profile=default", "name=userns"], "DockerRootDir": "/data/231072.231072"}
    assert read_facts(info, version).user_offset == 231072
    assert read_facts({**info, "SecurityOptions": ["name=rootless"]}, version).is_rootless
    assert read_facts({**info, "SecurityOptions": []}, version).user_offset == 0


@pytest.mark.anyio
async def test_podman_which_answers_no_question_about_a_manifest_is_asked_by_a_pull(
    docker_engine: DockerEngine, podman_service: PodmanService
) -> None:
    with Registry(wants_login=True) as registry:
        image = f"{registry.address}/team/private:1"
        docker_engine.tag(IMAGE, image)
        docker_engine.push(image, user="alice", password=READERS["alice"][0])
        docker_engine.remove_image(image)

        def access(tenant: str, user: str = "", password: str = "") -> ImageAccess:
            login = Credentials(registry=registry.address, username=user, password=password, version=len(password))
            return ImageAccess(tenant=TenantId(tenant), credentials=login if user else None, is_guarded=True)

        async with opened(podman_service) as runtime:
            for refused in (access("a"), access("b"), access("b", "alice", "guess")):
                await ensure(runtime, image, access("a", "alice", READERS["alice"][0]))
                with pytest.raises(ImageUnavailable) as why:
                    await ensure(runtime, image, refused)
                assert why.value.code == "image-denied"
            await ensure(runtime, image, access("b", "hatter", READERS["hatter"][0]))
        podman_service.remove_image(image)


async def ensure(runtime: DockerRuntime, image: str, access: ImageAccess) -> None:
    async for _ in runtime.ensure_image(image, access=access):
        pass
