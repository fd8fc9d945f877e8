"""How the operator logs in: as a kubeconfig says, also by a plugin, and with an error that names what is wrong."""

import json
from pathlib import Path

import anyio
import pytest
import yaml

from windlass.client.kube.api import PODS, KubeApi, read_config
from windlass.client.kube.login import Login
from windlass.core.errors import Invalid, Unavailable
from windlass.operator.patience import connection

pytestmark = pytest.mark.anyio


def kubeconfig(directory: Path, user: dict[str, object]) -> Path:
    path = directory / "config"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


def plugin(directory: Path, script: str, version: str = "v1", **more: object) -> dict[str, object]:
    program = directory / "get-token"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {"exec": {"apiVersion": f"client.authentication.k8s.io/{version}", "command": "./get-token", **more}}


def nothing_known(plural: str, line: bytes) -> bool:
    return False


def credential(status: str) -> str:
    return f'echo \'{{"kind": "ExecCredential", "status": {status}}}\''


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_a_plugin_is_asked_in_its_version_and_its_token_is_used(tmp_path: Path, version: str) -> None:
    told = tmp_path / "told"
    script = f'echo "$KUBERNETES_EXEC_INFO" > {told}; ' + credential('{"token": "\'$WHO\'"}')
    user = plugin(tmp_path, script, version, env=[{"name": "WHO", "value": "ours"}])
    info = await connection(read_config(kubeconfig(tmp_path, user)), nothing_known)
    async with info.aiohttp_session as http:
        assert http.headers["Authorization"] == "Bearer ours"
    asked = json.loads(told.read_text())
    assert asked["apiVersion"] == f"client.authentication.k8s.io/{version}"
    assert asked["spec"]["interactive"] is False


async def test_a_plugin_is_asked_again_only_when_its_token_was_refused(tmp_path: Path) -> None:
    script = f"echo x >> {tmp_path}/times; " + credential('{"token": "\'$(wc -l < ' + f"{tmp_path}/times)'\"}}")
    login = Login(read_config(kubeconfig(tmp_path, plugin(tmp_path, script))))
    assert [await login.headers() for _ in range(2)] == [{"Authorization": "Bearer 1"}] * 2
    assert await login.headers(anew=True) == {"Authorization": "Bearer 2"}


BAD = {
    "a plugin that fails": ("echo no such account >&2; exit 3", "v1", "get-token ended with 3: no such account"),
    "one that says something else": ("echo hello", "v1", "did not answer with an ExecCredential"),
    "one that gives only a certificate": (credential('{"clientCertificateData": "x"}'), "v1", "gave no token"),
    "one of the future": ("true", "v9", "speaks client.authentication.k8s.io/v9"),
}


@pytest.mark.parametrize(("script", "version", "words"), BAD.values(), ids=BAD.keys())
async def test_what_a_plugin_does_wrong_is_said(tmp_path: Path, script: str, version: str, words: str) -> None:
    with pytest.raises(Invalid, match=words) as refused:
        await connection(read_config(kubeconfig(tmp_path, plugin(tmp_path, script, version))), nothing_known)
    assert refused.value.code == "kube-config"


async def test_a_plugin_that_is_not_there_is_named_with_its_own_hint(tmp_path: Path) -> None:
    user = plugin(tmp_path, "true", installHint="get it from our intranet")
    (tmp_path / "get-token").unlink()
    with pytest.raises(Invalid, match="get-token could not be run") as refused:
        await connection(read_config(kubeconfig(tmp_path, user)), nothing_known)
    assert refused.value.hint == "get it from our intranet"


async def test_a_token_in_a_file_is_read_again_when_it_was_refused(tmp_path: Path) -> None:
    file = anyio.Path(tmp_path / "token")
    await file.write_text("old\n")
    login = Login(read_config(kubeconfig(tmp_path, {"tokenFile": str(file)})))
    assert await login.bearer() == "old"
    await file.write_text("new\n")
    assert (await login.bearer(), await login.bearer(anew=True)) == ("old", "new")


async def test_a_name_and_a_password_are_sent_as_such(tmp_path: Path) -> None:
    login = Login(read_config(kubeconfig(tmp_path, {"username": "a", "password": "b"})))
    assert await login.headers() == {"Authorization": "Basic YTpi"}


PROXIES = {
    "none is named": ({}, None),
    "one is named": ({"https_proxy": "http://10.0.0.1:3128"}, "http://10.0.0.1:3128"),
    "one is named, for others": ({"https_proxy": "http://10.0.0.1:3128", "no_proxy": "127.0.0.1"}, None),
}


@pytest.mark.parametrize(("environ", "proxy"), PROXIES.values(), ids=PROXIES.keys())
async def test_a_proxy_of_the_environment_is_gone_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], proxy: str | None
) -> None:
    for name in ("https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert Login(read_config(kubeconfig(tmp_path, {"token": "t"}))).proxy() == proxy


async def test_a_netrc_that_names_the_server_takes_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is other programs' login: with ours beside it, aiohttp would send neither."""
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login a password b\n")
    async with KubeApi(read_config(kubeconfig(tmp_path, {"token": "t"}))) as api:
        with pytest.raises(Unavailable, match="does not answer"):  # nobody is there; it was asked
            await api.get(PODS, "some", "default")
