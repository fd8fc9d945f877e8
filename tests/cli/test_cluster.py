"""`egpu` and `windlass` spoken to a cluster: what a person reads when it is interrupted, refused or alone there."""

import base64
import gzip
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.cli.cluster import CORE, JOBS, Cluster, Shell, a_cluster
from tests.parts.waiting import wait_for

from windlass.cli.unseen import unseen_told
from windlass.client.kube import lines
from windlass.client.kube.api import KubeApi, read_config
from windlass.client.kube.home import KubeClient
from windlass.core.errors import Invalid, NotFound
from windlass.wire.kube import kinds
from windlass.wire.kube.names import INSTALLATION_LABEL, UPLOAD, labels
from windlass.wire.render import timestamp

VOLUMES = f"{CORE}/persistentvolumeclaims"
PATIENCE_SECONDS = 120
"""On a busy machine."""


ENDINGS = pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with a_cluster() as found:
        yield found


@pytest.fixture
def shell(cluster: Cluster, tmp_path: Path) -> Shell:
    return Shell(cluster, tmp_path)


def large(directory: Path) -> Path:
    directory.mkdir()
    (directory / "file").write_bytes(b"A" * (20 << 20))
    return directory


@ENDINGS
def test_an_interrupted_upload_ends_in_one_line_and_takes_the_job_back(
    cluster: Cluster, shell: Shell, tmp_path: Path, number: int, code: int
) -> None:
    cluster.stuck = "tee"
    process = shell.start("egpu", "create", "it", "--project-dir", str(large(tmp_path / "code")))
    assert cluster.has_begun.wait(PATIENCE_SECONDS)
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, err.strip()) == (code, "the upload did not finish; taking it back")
    assert (cluster.names(JOBS), cluster.names(f"{CORE}/pods")) == ([], [])


def test_a_job_whose_client_was_killed_in_its_upload_is_known_as_such(
    cluster: Cluster, shell: Shell, tmp_path: Path
) -> None:
    cluster.stuck = "tee"
    process = shell.start("egpu", "create", "it", "--project-dir", str(large(tmp_path / "code")))
    assert cluster.has_begun.wait(PATIENCE_SECONDS)
    process.kill()
    process.communicate(timeout=PATIENCE_SECONDS)
    job = cluster.stored[f"{JOBS}/it"]
    assert job["metadata"]["annotations"] == {UPLOAD: "awaited"}
    said = {"message": "it waits for its upload; if that was broken off, delete it"}
    job["status"] = {"phase": "Pending", "reason": "Suspended", "observedGeneration": 1, **said}
    for words in (("egpu", "list"), ("windlass", "describe", "it")):
        shown = shell(*words).stdout
        assert said["message"] in shown
        assert "waits to be released" not in shown
    assert shell("windlass", "release", "it").returncode == 0
    assert (job["spec"]["suspend"], job["metadata"]["annotations"]) == (False, {UPLOAD: None})


@ENDINGS
def test_an_interrupted_command_beside_a_job_ends_without_a_word(
    cluster: Cluster, shell: Shell, number: int, code: int
) -> None:
    cluster.stuck = "sleep"
    cluster.put(f"{CORE}/persistentvolumeclaims", {"metadata": {"name": "artifacts-it"}})
    process = shell.start("egpu", "debug", "it", "--exec", "sleep 100")
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, err.strip(), cluster.names(f"{CORE}/pods")) == (code, "", [])


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_a_pod_beside_a_job_goes_though_the_interrupt_comes_while_it_is_made_or_removed(
    cluster: Cluster, shell: Shell, method: str
) -> None:
    cluster.slow = {method}
    cluster.put(VOLUMES, {"metadata": {"name": "artifacts-it"}})
    process = shell.start("egpu", "debug", "it", "--exec", "true")
    assert cluster.has_begun.wait(PATIENCE_SECONDS)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, err.strip(), cluster.names(f"{CORE}/pods")) == (130, "", [])
    assert cluster.asked[-1].startswith(f"{CORE}/pods/it-debug-"), "the pod that was made is removed again"


def test_a_command_that_is_not_in_the_image_is_said_and_ends_as_in_a_shell(cluster: Cluster, shell: Shell) -> None:
    cluster.absent = {"nosuch", "wget"}
    cluster.put(VOLUMES, {"metadata": {"name": "artifacts-it"}})
    done = shell("egpu", "debug", "it", "--exec", "nosuch --at-all")
    assert (done.returncode, done.stderr) == (127, "no such command in the image: nosuch\n")
    done = shell("egpu", "copy-file", "it", "http://x.test/cat.jpg")
    assert "ended with 127: no such command in the image: wget" in done.stderr
    assert cluster.names(f"{CORE}/pods") == []


def sealed(text: str, owner: str, name: str = "it-1-log") -> dict[str, Any]:
    packed = base64.b64encode(gzip.compress(text.encode())).decode()
    return {"metadata": {"name": name, **owned(owner)}, "binaryData": {"log.gz": packed}}


def owned(uid: str) -> dict[str, Any]:
    return {"ownerReferences": [{"kind": "EphemeralAccelerationJob", "uid": uid, "controller": True}]}


@pytest.mark.parametrize("option", ["--timestamps", "--stream=stderr"])
def test_what_a_log_on_a_cluster_does_not_tell_is_refused(cluster: Cluster, shell: Shell, option: str) -> None:
    cluster.job("it", phase="Succeeded", attempt=1)
    done = shell("egpu", "logs", "it", option)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{option.partition('=')[0]} is not for" in done.stderr


def test_the_sealed_log_of_the_job_is_shown(cluster: Cluster, shell: Shell) -> None:
    job = cluster.job("it", phase="Succeeded", attempt=1, logName="it-1-log")
    cluster.put(f"{CORE}/configmaps", sealed("mine\n", job["metadata"]["uid"]))
    assert shell("egpu", "logs", "it").stdout == "mine\n"


@pytest.mark.parametrize("named", ["it-1-log", ""])
def test_the_log_of_an_earlier_job_of_that_name_is_not_shown(cluster: Cluster, shell: Shell, named: str) -> None:
    cluster.job("it", phase="Succeeded", attempt=1, **({"logName": named} if named else {}))
    cluster.put(f"{CORE}/configmaps", sealed("another's\n", "another"))
    cluster.put(f"{CORE}/pods", {"metadata": {"name": "it-1", **owned("another")}})
    cluster.logs["it-1"] = "another's\n"
    done = shell("egpu", "logs", "it")
    words = "error: the log of it is not here: ConfigMap it-1-log is something else, not made for this job"
    assert (done.returncode, done.stdout, done.stderr.split("\n")[0]) == (3, "", words)
    assert "Succeeded" in shell("windlass", "describe", "it").stdout.title()


@pytest.mark.parametrize("held", [{"data": {"a": "b"}}, {"binaryData": {"log.gz": "AAAA"}}])
def test_a_log_that_is_none_is_said_in_one_line(cluster: Cluster, shell: Shell, held: dict[str, Any]) -> None:
    job = cluster.job("it", phase="Succeeded", attempt=1, logName="it-1-log")
    metadata = {"name": "it-1-log", **owned(job["metadata"]["uid"])}
    cluster.put(f"{CORE}/configmaps", {"metadata": metadata, **held})
    done = shell("egpu", "logs", "it")
    assert (done.returncode, done.stderr) == (1, "error: ConfigMap it-1-log holds no log that can be read\n")


def test_a_log_that_is_gone_is_said_also_to_who_follows(cluster: Cluster, shell: Shell) -> None:
    cluster.job("it", phase="Succeeded", attempt=1, logName="it-1-log")
    for words in (("logs", "it"), ("logs", "-f", "it")):
        done = shell("egpu", *words)
        said = "error: the log of it is gone: there is no ConfigMap it-1-log any more\n"
        assert (done.returncode, done.stderr) == (3, said)


def test_the_log_of_the_run_before_is_not_taken_for_that_of_one_that_printed_nothing(
    cluster: Cluster, shell: Shell
) -> None:
    job = cluster.job("it", phase="Succeeded", attempt=2, logName="it-1-log")
    cluster.put(f"{CORE}/configmaps", sealed("first\n", job["metadata"]["uid"]))
    assert shell("egpu", "logs", "it").stdout == ""
    assert shell("egpu", "logs", "it", "--attempt", "1").stdout == "first\n"


@pytest.mark.parametrize(
    ("then", "printed"),
    [
        pytest.param({"phase": "Succeeded", "attempt": 2, "logName": "it-2-log"}, ["first", "second"], id="retried"),
        pytest.param({"phase": "Failed", "reason": "Cancelled"}, ["first"], id="cancelled"),
    ],
)
def test_who_follows_reads_a_run_once_while_its_retry_waits(
    cluster: Cluster, shell: Shell, monkeypatch: pytest.MonkeyPatch, then: dict[str, Any], printed: list[str]
) -> None:
    waiting = {"attempt": 1, "logName": "it-1-log", "retryAt": "2026-01-01T00:00:00Z"}
    job = cluster.job("it", phase="Pending", **waiting)
    for name, text in (("it-1-log", "first\n"), ("it-2-log", "second\n")):
        cluster.put(f"{CORE}/configmaps", sealed(text, job["metadata"]["uid"], name))
    looks = []

    def until_the_next_look(_: float) -> None:
        looks.append(job["status"])
        if len(looks) == 3:  # the backoff is over: no other moment lets it pass
            job["status"] = then

    monkeypatch.setattr(lines, "time", SimpleNamespace(sleep=until_the_next_look))
    client = KubeClient(read_config(shell.config))
    with closing(client), closing(client.logs("it", follow=True)) as log:
        assert [line["text"] for line in islice(log, 10)] == printed


def test_a_number_with_a_fraction_goes_to_the_api_server_as_it_was_written(
    cluster: Cluster, shell: Shell, tmp_path: Path
) -> None:
    manifest = "apiVersion: windlass.dev/v1\nkind: EphemeralAccelerationJob\nmetadata: {name: it}\n"
    (tmp_path / "it.yaml").write_text(manifest + "spec: {image: busybox, resources: {cpu: 0.05, gpu: 0}}\n")
    assert "it created" in shell("windlass", "apply", "-f", "it.yaml").stdout
    assert b'"cpu":"0.05"' in cluster.bodies[0], "a quantity is a whole number or text there"
    assert "it unchanged" in shell("windlass", "apply", "-f", "it.yaml").stdout


@pytest.mark.anyio
async def test_any_other_number_is_sent_as_one(cluster: Cluster, shell: Shell) -> None:
    async with KubeApi(read_config(shell.config)) as api:
        await api.merge(kinds.JOBS, cluster.job("it")["metadata"]["name"], {"spec": {"n": Decimal("0.05")}}, "lab")
    assert cluster.bodies == [b'{"spec":{"n":0.05}}']


def test_who_waits_where_no_operator_is_learns_so_and_goes_on_waiting(
    cluster: Cluster, shell: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.job("it")
    client = KubeClient(read_config(shell.config))
    said = []
    with unseen_told(client, "it", seconds=0):
        wait_for(lambda: said.append(capsys.readouterr().err) or "operator" in "".join(said), 30, "it to be said")
    where = "kubectl -n windlass-system get deployment windlass-operator"
    there = f"no operator has looked at it yet; `{where}` shows whether there is one"
    none = "if not, `windlass operator install` makes one"
    blind = "and if so, its setting `namespaces` must name lab, if it names any"
    assert "".join(said) == f"{there}: {none}, {blind}\n"
    cluster.job("it", phase="Pending")
    assert client.unseen("it") != "", "the API server itself says that every new job is Pending"
    cluster.job("it", phase="Pending", observedGeneration=1)
    assert client.unseen("it") == ""
    client.close()


@pytest.mark.parametrize("words", [("egpu", "list"), ("egpu", "get", "it"), ("windlass", "describe", "it")])
def test_who_looks_at_a_job_that_no_operator_has_seen_learns_so(
    cluster: Cluster, shell: Shell, words: tuple[str, ...]
) -> None:
    job = cluster.job("it", phase="Pending")
    job["metadata"]["creationTimestamp"] = timestamp(time.time())
    assert "no operator" not in shell(*words).stdout, "one that is there has not had the time yet"
    job["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    assert "no operator has looked at it yet" in shell(*words).stdout
    job["status"]["observedGeneration"] = 1
    assert "no operator" not in shell(*words).stdout


def test_who_looks_at_a_change_that_no_operator_has_seen_learns_so(cluster: Cluster, shell: Shell) -> None:
    job = cluster.job("it", phase="Pending", reason="Suspended", observedGeneration=1)
    job["metadata"] |= {"creationTimestamp": "2026-01-01T00:00:00Z", "generation": 2}
    by_hand = {"manager": "kubectl", "time": timestamp(time.time())}
    by_operator = {"manager": "operator", "subresource": "status", "time": "2026-01-01T00:00:01Z"}
    job["metadata"]["managedFields"] = [by_hand, by_operator]
    assert "no operator" not in shell("egpu", "get", "it").stdout, "one that is there has not had the time yet"
    by_hand["time"] = "2026-01-01T00:00:02Z"
    assert "no operator has looked at it since it was changed" in shell("egpu", "get", "it").stdout


@pytest.mark.parametrize("words", [("list",), ("get", "it"), ("logs", "it"), ("delete", "it")])
def test_a_cluster_without_the_operators_kinds_says_what_brings_them(
    cluster: Cluster, shell: Shell, words: tuple[str, ...]
) -> None:
    cluster.has_kinds = False
    done = shell("egpu", *words)
    assert done.returncode == 3, done.stderr
    assert "error: the cluster has no ephemeral accelerated jobs" in done.stderr
    assert "`windlass operator install` brings them" in done.stderr


DEBUG: dict[str, Any] = {"image": None, "keep": False, "name": None, "command": ["true"]}
ELSEWHERE = (
    "it?dryRun=All",
    "it#x",
    "it/status",
    "../../other/ephemeralaccelerationjobs/it",
    "..",
    ".",
    "",
    "%2e%2e",
    "i\x1b[31mt",
    "IT",
)


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_name_that_no_job_can_have_leads_nowhere_else(cluster: Cluster, shell: Shell, name: str) -> None:
    cluster.job("it", phase="Running", attempt=1, observedGeneration=1)
    with closing(KubeClient(read_config(shell.config))) as client:
        for verb in (client.job, client.cancel, client.release, client.delete, client.unseen):
            with pytest.raises(NotFound, match="there is no job"):
                verb(name)
        with pytest.raises(NotFound, match="there is neither a job"), client.debug(name, **DEBUG):
            pass
    assert cluster.asked == []


def test_a_name_that_no_job_can_have_is_said_in_one_line(cluster: Cluster, shell: Shell) -> None:
    done = shell("egpu", "delete", "../../other/ephemeralaccelerationjobs/i\x1b[31mt")
    assert done.returncode == 3, done.stderr
    assert "error: there is no job ../../other/ephemeralaccelerationjobs/i" in done.stderr
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize("name", [one for one in ELSEWHERE if one not in ("", "IT")])
def test_no_name_leads_out_of_its_kind(name: str) -> None:
    for where in ((name, "it"), ("lab", name)):
        with pytest.raises(Invalid, match="nothing on a cluster can be called"):
            kinds.PODS.path(*where)


@pytest.mark.parametrize("namespace", ["lab/../other", "../..", "lab?x", "la\x1b[31mb", "LAB"])
def test_a_namespace_that_cannot_be_is_refused_before_anything_is_asked(
    cluster: Cluster, shell: Shell, namespace: str
) -> None:
    done = shell("egpu", "-n", namespace, "list")
    assert done.returncode == 1, done.stderr
    assert "error: no namespace can be called" in done.stderr
    assert cluster.asked == []


def test_a_copy_for_a_job_that_cannot_be_is_refused_before_anything_is_asked(cluster: Cluster, shell: Shell) -> None:
    done = shell("egpu", "copy-file", "../x", "https://example.org/a", "--target-path", "a")
    assert done.returncode == 1, done.stderr
    assert "error: no job can be called ../x" in done.stderr
    assert cluster.asked == []


def test_a_job_deleted_with_its_volume_takes_along_the_pods_that_killed_clients_left(
    cluster: Cluster, shell: Shell
) -> None:
    cluster.job("it", phase="Succeeded", attempt=1, observedGeneration=1)
    for name, part, more in (
        ("it-debug-1", "debug", {}),
        ("it-upload-1", "upload", {}),
        ("it-1", "run", {}),
        ("it-download-1", "download", {INSTALLATION_LABEL: "a"}),
    ):
        cluster.put(f"{CORE}/pods", {"metadata": {"name": name, "labels": {**labels("it", part), **more}}})
    shell("egpu", "delete", "it")
    assert len(cluster.names(f"{CORE}/pods")) == 4, "a volume that stays is for whoever is at it"
    cluster.job("it", phase="Succeeded", attempt=1, observedGeneration=1)
    shell("egpu", "delete", "it", "--delete-pvc")
    assert cluster.names(f"{CORE}/pods") == ["it-1", "it-download-1"]


def test_where_there_never_was_a_job_no_time_to_live_has_passed(cluster: Cluster, shell: Shell) -> None:
    for words in (("download", "it", "x"), ("debug", "it")):
        done = shell("egpu", *words)
        said = "error: there is neither a job it nor a volume of one in namespace lab\n"
        assert (done.returncode, said in done.stderr) == (3, True), done.stderr
    cluster.job("it", phase="Succeeded", attempt=1)
    assert "its time-to-live has passed" in shell("egpu", "download", "it", "x").stderr
    cluster.job("it", phase="Pending")
    assert "the operator makes it before the job starts" in shell("egpu", "download", "it", "x").stderr


@pytest.mark.parametrize("verb", ["release", "cancel"])
def test_a_job_that_is_over_is_neither_released_nor_cancelled(cluster: Cluster, shell: Shell, verb: str) -> None:
    cluster.job("it", phase="Failed", reason="ExitCode", attempt=1)
    done = shell("windlass", verb, "it")
    assert (done.returncode, done.stdout, done.stderr) == (5, "", "error: job it is over: FAILED\n")


def test_a_verb_that_only_a_server_has_names_all_that_leads_to_a_cluster(shell: Shell) -> None:
    assert "leave out --kubeconfig, --context, -n and WINDLASS_HOME" in shell("windlass", "get", "nodes").stderr


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("wget: server returned error: HTTP/1.1 404 Not Found\n", "server returned error: HTTP/1.1 404 Not Found"),
        ("wget: bad address 'x.test'\n", "bad address 'x.test'"),
    ],
)
def test_an_address_that_has_no_such_file_is_not_to_be_tried_again(
    cluster: Cluster, shell: Shell, said: str, shown: str
) -> None:
    cluster.failing["wget"] = (1, said)
    done = shell("egpu", "copy-file", "it", "http://x.test/cat.jpg")
    assert (done.returncode, done.stderr) == (1, f"error: the address did not give the file: {shown}\n")
    assert [words[0] for words in cluster.commands[-2:]] == ["rm", "ls"]
    assert cluster.names(VOLUMES) == [], "it was made for this, and nothing came"


@pytest.mark.parametrize(
    "why", ["it was there before", "another's file is in it", "a job has adopted it", "another pod is at it"]
)
def test_a_copy_that_fails_leaves_a_volume_that_is_not_its_own_alone(cluster: Cluster, shell: Shell, why: str) -> None:
    cluster.failing["wget"] = (1, "wget: bad address\n")
    volume = f"{VOLUMES}/artifacts-it"
    if why == "it was there before":
        cluster.put(VOLUMES, {"metadata": {"name": "artifacts-it"}})
    elif why == "another's file is in it":
        cluster.printing["ls"] = "lost+found\ncat.jpg\n"
    elif why == "a job has adopted it":
        cluster.meanwhile["wget"] = lambda: cluster.stored[volume]["metadata"].update(owned("a-job"))
    else:
        cluster.put(f"{CORE}/pods", {"metadata": {"name": "it-copy-other"}})
    assert shell("egpu", "copy-file", "it", "http://x.test/cat.jpg").returncode == 1
    assert cluster.names(VOLUMES) == ["artifacts-it"]


@pytest.mark.parametrize("target", ["", "/artifacts", "/artifacts/", "sub/"])
def test_a_copy_that_names_no_file_is_refused_before_anything_is_made(
    cluster: Cluster, shell: Shell, target: str
) -> None:
    done = shell("egpu", "copy-file", "it", "http://x.test/cat.jpg", "--target-path", target)
    assert (done.returncode, done.stdout) == (1, "")
    assert "targetPath: expected a file below /artifacts, with the file's name" in done.stderr
    assert cluster.stored == {}


def test_a_copy_onto_a_directory_is_refused_before_it_is_fetched(cluster: Cluster, shell: Shell) -> None:
    cluster.directories.add("/artifacts/d")
    done = shell("egpu", "copy-file", "it", "http://x.test/cat.jpg", "--target-path", "d")
    said = "error: /artifacts/d is a directory in the volume\nhint: name the file in it: /artifacts/d/NAME\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)
    assert "wget" not in [words[0] for words in cluster.commands]


def test_an_upload_onto_a_directory_is_refused_before_it_is_sent(
    cluster: Cluster, shell: Shell, tmp_path: Path
) -> None:
    cluster.job("it")["spec"]["suspend"] = True
    cluster.directories.add("/artifacts/d")
    (tmp_path / "file").write_text("x")
    done = shell("windlass", "cp", "file", "it:/d")
    assert (done.returncode, done.stdout) == (1, "")
    assert "error: /artifacts/d is a directory in the volume\n" in done.stderr
    assert "tee" not in [words[0] for words in cluster.commands]
    done = shell("windlass", "cp", "file", "it:/d/")
    assert (done.returncode, cluster.commands[-2][-1]) == (0, "/artifacts/d/file"), done.stderr


def test_what_ends_a_job_whose_reader_left_names_its_namespace(cluster: Cluster, shell: Shell) -> None:
    process = shell.start("egpu", "create", "it", "--gpu", "0", "--watch")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "it created\n"
    process.stdout.close()
    job = cluster.stored[f"{JOBS}/it"]
    cluster.put(f"{CORE}/pods", {"metadata": {"name": "it-1", **owned(job["metadata"]["uid"])}})
    cluster.logs["it-1"] = "a line\n"
    job["status"] = {"phase": "Running", "attempt": 1, "podName": "it-1"}
    said = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 141
    ending = f"windlass --kubeconfig {shell.config} -n lab cancel it"
    assert said == f"left it running: its output is read no more; `{ending}` ends it\n"


def test_what_is_told_to_be_typed_leads_to_the_same_cluster(cluster: Cluster, shell: Shell) -> None:
    way = f"--kubeconfig {shell.config} --context here"
    done = shell("egpu", "--context", "here", "get", "it")
    assert f"`egpu {way} -n lab list` shows them" in done.stderr
    for words in (("egpu", "list"), ("windlass", "get", "jobs")):
        done = shell(*words, "--context", "here")
        assert f"`egpu {way} -n lab create NAME --project-dir DIR` makes one" in done.stderr
    cluster.job("it")["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    said = shell("egpu", "--context", "here", "list").stdout
    assert f"`kubectl {way} -n windlass-system get deployment windlass-operator` shows" in said
    assert f"`windlass operator install {way}` makes one" in said


ESCAPES = "\x1b[2J\x1b]0;owned\x07\x9b2J\x7f\u202e\U000e0041over"
"""Clears the screen, names the window, rings the bell, clears it in one character, turns the line, hides a letter."""


def test_what_a_job_leaves_in_its_status_and_events_cannot_move_a_terminals_cursor(
    cluster: Cluster, shell: Shell
) -> None:
    job = cluster.job("it", phase="Failed", reason=f"Bad{ESCAPES}", message=f"words{ESCAPES}\n{ESCAPES}", attempt=1)
    job["status"] |= {"observedGeneration": 1, "node": ESCAPES, "podName": ESCAPES, "artifactPath": ESCAPES}
    event = {"involvedObject": {"uid": job["metadata"]["uid"]}, "reason": ESCAPES, "message": ESCAPES}
    cluster.put(f"{CORE}/events", {"metadata": {"name": "one"}, "lastTimestamp": "2026-01-01T00:00:00Z", **event})
    for program, *words in (
        ("egpu", "list", "-o", "wide"),
        ("egpu", "get", "it", "-o", "json"),
        ("egpu", "get", "it", "-o", "yaml"),
        ("egpu", "watch", "it"),
        ("windlass", "describe", "it"),
        ("egpu", "logs", "-f", "it"),
    ):
        done = shell(program, *words)
        said = done.stdout + done.stderr
        assert said.replace("\n", "").isprintable(), (words, said)
        assert "over" in said or words[0] == "logs"


def test_what_a_cluster_refuses_with_cannot_move_a_terminals_cursor(cluster: Cluster, shell: Shell) -> None:
    cluster.failing["wget"] = (1, f"wget: {ESCAPES}\n")
    done = shell("egpu", "copy-file", "it", "http://x.test/cat.jpg")
    assert (done.returncode, done.stderr.replace("\n", "").isprintable()) == (1, True), done.stderr
    assert "over" in done.stderr


def test_what_a_job_printed_is_shown_as_it_is(cluster: Cluster, shell: Shell) -> None:
    job = cluster.job("it", phase="Succeeded", attempt=1, logName="it-1-log")
    cluster.put(f"{CORE}/configmaps", sealed(f"{ESCAPES}\n", job["metadata"]["uid"]))
    assert shell("egpu", "logs", "it").stdout == f"{ESCAPES}\n"


def test_a_way_with_a_space_in_it_can_be_typed_as_it_is_told(shell: Shell, tmp_path: Path) -> None:
    spaced = tmp_path / "my config"
    spaced.write_bytes(shell.config.read_bytes())
    said = shell("egpu", "--kubeconfig", str(spaced), "get", "it").stderr
    assert f"`egpu --kubeconfig '{spaced}' -n lab list` shows them" in said


@pytest.mark.parametrize("words", [("egpu", "list"), ("windlass", "get", "jobs")])
def test_no_jobs_in_a_namespace_that_is_not_there_are_an_error(
    cluster: Cluster, shell: Shell, words: tuple[str, ...]
) -> None:
    done = shell(*words)
    assert (done.returncode, "no jobs yet" in done.stderr) == (0, True), done.stderr
    done = shell(*words, "-n", "nosuch")
    assert (done.returncode, done.stdout) == (3, "")
    assert "error: there is no namespace nosuch in the cluster\n" in done.stderr
    cluster.namespaces["/api/v1/namespaces/hidden"] = 403
    done = shell(*words, "-n", "hidden")
    assert (done.returncode, "no jobs yet" in done.stderr) == (0, True), "who may not look learns nothing of it"


@pytest.mark.parametrize("reason", ["PodDeleted", "NodeLost"])
def test_a_log_that_went_with_its_pod_is_said_to_be_lost(cluster: Cluster, shell: Shell, reason: str) -> None:
    cluster.job("it", phase="Failed", reason=reason, message="its pod was deleted while it ran", attempt=1)
    for words in (("logs", "it"), ("logs", "-f", "it"), ("logs", "it", "--attempt", "1")):
        done = shell("egpu", *words)
        said = "error: no log of it was kept: its pod was deleted while it ran\n"
        assert (done.returncode, done.stdout, done.stderr) == (3, "", said)


def test_a_log_that_was_lost_with_one_run_does_not_keep_who_follows_from_the_next(
    cluster: Cluster, shell: Shell
) -> None:
    lost = {"reason": "PodDeleted", "message": "its pod was deleted while it ran"}
    job = cluster.job("it", phase="Failed", attempt=2, logName="it-2-log", **lost)
    cluster.put(f"{CORE}/configmaps", sealed("second\n", job["metadata"]["uid"], "it-2-log"))
    client = KubeClient(read_config(shell.config))
    with closing(client), closing(client.logs("it", follow=True, after="0")) as log:
        assert [line["text"] for line in log] == ["second"]
