"""`windlass plan` as a person types it, at a real server: what is there already, what would be refused, and where it is written."""

import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import anyio
import msgspec
import pytest

from tests.api.home import manifest
from tests.api.live import LiveHome, live_home

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-")


@pytest.fixture
async def live() -> AsyncIterator[LiveHome]:
    async with live_home() as home:
        yield home


async def windlass(live: LiveHome, *words: str, role: str = "member") -> CompletedProcess[str]:
    token = live.api.token(roles=(role,))
    environ = os.environ | {"WINDLASS_URL": live.url, "WINDLASS_TOKEN": token, "NO_COLOR": "1"}
    typed = [sys.executable, "-c", "from windlass.boot.entry import windlass; windlass()", *words]
    done = await anyio.run_process(typed, env=environ, check=False)
    return CompletedProcess(typed, done.returncode, done.stdout.decode(), done.stderr.decode())


def written(file: Path, *documents: dict[str, Any]) -> str:
    """JSON is YAML; so are many of them."""
    file.write_text("\n---\n".join(msgspec.json.encode(document).decode() for document in documents))
    return str(file)


def rows(done: CompletedProcess[str]) -> dict[str, str]:
    lines = done.stdout.splitlines()[1:]
    return {line.split()[0]: " ".join(line.split()[1:]) for line in lines if line.split()}


@pytest.mark.anyio
async def test_what_is_there_already_is_unchanged_as_apply_says_and_another_spec_is_refused(
    live: LiveHome, tmp_path: Path
) -> None:
    same = manifest("true", name="same", suspend=True)
    file = written(tmp_path / "jobs.yaml", same, manifest("true", name="new"))
    assert (await windlass(live, "apply", "-f", written(tmp_path / "first.yaml", same))).returncode == 0

    done = await windlass(live, "plan", "-f", file, role="viewer")
    assert (done.returncode, done.stderr) == (0, "")
    assert rows(done)["same"] == "unchanged - - - is there already"
    assert rows(done)["new"].startswith("at once on n1")

    other = manifest("false", name="same", suspend=True)
    done = await windlass(live, "plan", "-f", written(tmp_path / "other.yaml", other))
    applied = await windlass(live, "apply", "-f", str(tmp_path / "other.yaml"))
    assert done.returncode == 4
    assert "spec-immutable" in rows(done)["same"]
    assert f"error: {tmp_path}/other.yaml (same): job same exists with another spec" in done.stderr
    told = [line for line in applied.stderr.splitlines() if not line.startswith("error:")]
    assert told
    assert [line for line in done.stderr.splitlines() if not line.startswith("error:")] == told


@pytest.mark.anyio
async def test_one_name_twice_is_judged_as_if_the_first_were_there(live: LiveHome, tmp_path: Path) -> None:
    first = manifest("true", name="twice")
    filled = manifest("true", name="twice", onLostNode="wait")  # as the server would fill it in
    file = written(tmp_path / "jobs.yaml", first, filled, manifest("false", name="twice"))
    done = await windlass(live, "plan", "-f", file, "-o", "json")
    items = msgspec.json.decode(done.stdout)["items"]
    assert [(one["accepted"], one["unchanged"]) for one in items] == [(True, False), (True, True), (False, False)]
    assert [(one["file"], one["document"]) for one in items] == [(file, 1), (file, 2), (file, 3)]
    assert items[2]["refusal"]["code"] == "spec-immutable"
    shown = await windlass(live, "plan", "-f", file)
    assert f"{file}, document 3 (twice): job twice exists with another spec" in shown.stderr
    assert not UUID.search(shown.stdout + shown.stderr + done.stdout)


@pytest.mark.anyio
async def test_every_fault_of_many_manifests_is_named_by_its_file_its_place_and_its_field(
    live: LiveHome, tmp_path: Path
) -> None:
    many = written(
        tmp_path / "many.yaml", manifest("true", name="odd", retries=-1), manifest("true", name="odder", colour=3)
    )
    tenant = {"apiVersion": "windlass.dev/v1", "kind": "Tenant", "metadata": {"name": "t"}, "spec": {"weight": 2}}
    one = written(tmp_path / "one.yaml", tenant)
    done = await windlass(live, "plan", "-f", many, "-f", one)
    told = done.stderr.splitlines()
    errors = [line for line in told if line.startswith("error: ")]
    faults = [line for line in told if line.startswith("  - ")]
    assert errors == [
        f"error: {many}, document 1 (odd): the manifest has one fault",
        f"error: {many}, document 2 (odder): the manifest has one fault",
        f"error: {one} (t): the manifest has one fault",
    ]
    assert [fault.partition(": ")[0] for fault in faults] == ["  - spec.retries", "  - spec.colour", "  - kind"]
    assert "a Tenant is no job" in faults[2]
    assert "items" not in done.stderr


@pytest.mark.anyio
async def test_a_manifest_with_faults_is_told_alone_as_it_is_beside_a_good_one(live: LiveHome, tmp_path: Path) -> None:
    bad = written(tmp_path / "bad.yaml", manifest("true", name="bad", foo=1))
    good = written(tmp_path / "good.yaml", manifest("true", name="good"))
    beside, alone = await windlass(live, "plan", "-f", bad, "-f", good), await windlass(live, "plan", "-f", bad)
    assert (alone.returncode, alone.stderr) == (beside.returncode, beside.stderr)
    assert alone.returncode == 4
    assert rows(alone)["bad"] == rows(beside)["bad"] == "refused - - - invalid: the manifest has one fault"
    as_json = await windlass(live, "plan", "-f", bad, "-o", "json")
    (item,) = msgspec.json.decode(as_json.stdout)["items"]
    assert (as_json.returncode, item["name"], item["file"], item["accepted"]) == (4, "bad", bad, False)
    assert [fault["field"] for fault in item["refusal"]["faults"]] == ["spec.foo"]


@pytest.mark.anyio
async def test_manifests_with_faults_are_shown_as_refused_and_the_others_are_planned(
    live: LiveHome, tmp_path: Path
) -> None:
    wrong = manifest("true", name="wrong", nodeSelector={"k": 3})
    file = written(
        tmp_path / "a.yaml", manifest("true", name="one"), wrong, manifest("true", name="two", retries=-1, colour=3)
    )
    other = written(tmp_path / "b.yaml", manifest("true", name="three"))
    done = await windlass(live, "plan", "-f", file, "-f", other)
    assert done.returncode == 4
    assert [rows(done)[name].startswith("at once on n1") for name in ("one", "three")] == [True, True]
    assert rows(done)["wrong"] == "refused - - - invalid: the manifest has one fault"
    errors = done.stderr.splitlines()
    assert errors[0] == f"error: {file}, document 2 (wrong): the manifest has one fault"
    assert errors[1].startswith("  - spec.nodeSelector.k: ")
    assert f"error: {file}, document 3 (two): the manifest has 2 faults" in errors
    as_json = await windlass(live, "plan", "-f", file, "-f", other, "-o", "json")
    items = msgspec.json.decode(as_json.stdout)["items"]
    assert [(one["name"], one["file"], one["document"], one["accepted"]) for one in items] == [
        ("one", file, 1, True),
        ("wrong", file, 2, False),
        ("two", file, 3, False),
        ("three", other, 1, True),
    ]
    assert [fault["field"] for fault in items[1]["refusal"]["faults"]] == ["spec.nodeSelector.k"]


@pytest.mark.anyio
async def test_several_files_that_cannot_be_read_are_all_named(live: LiveHome, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("{")
    nameless = written(tmp_path / "b.yaml", {"kind": "Job"}, manifest("true", name="good"))
    for verb in ("plan", "apply"):
        done = await windlass(live, verb, "-f", str(tmp_path / "a.yaml"), "-f", nameless)
        assert done.returncode == 1
        assert "error: 2 files cannot be applied" in done.stderr
        assert f"  - {tmp_path}/a.yaml: not YAML: " in done.stderr
        assert f"  - {nameless}: document 1: metadata.name: expected a name" in done.stderr


@pytest.mark.anyio
async def test_a_job_that_fits_nowhere_is_named_with_its_file_and_its_fields(live: LiveHome, tmp_path: Path) -> None:
    needs = {"cpu": "4000", "memory": "64Mi", "gpu": 0}
    file = written(tmp_path / "a.yaml", manifest("true", name="small"), manifest("true", name="vast", resources=needs))
    done = await windlass(live, "plan", "-f", file)
    assert done.returncode == 4
    assert rows(done)["vast"] == "refused - - - fits-nowhere: no node could ever run this job"
    assert f"error: {file}, document 2 (vast): no node could ever run this job" in done.stderr
    assert "  - spec.resources.cpu: asks for 4000 cores" in done.stderr


@pytest.mark.anyio
async def test_what_is_suspended_has_no_start_and_no_price_and_more_than_a_plan_takes_is_counted(
    live: LiveHome, tmp_path: Path
) -> None:
    done = await windlass(
        live, "plan", "-f", written(tmp_path / "a.yaml", manifest("true", name="later", suspend=True))
    )
    assert rows(done)["later"] == "when it is released 1m - -"
    many = written(tmp_path / "many.yaml", *(manifest("true", name=f"j{number}") for number in range(101)))
    done = await windlass(live, "plan", "-f", many)
    assert done.stderr.splitlines() == [
        "error: the manifests have one fault",
        "  - 101 documents: expected a list of 1 to 100 manifests",
    ]


@pytest.mark.anyio
async def test_a_job_that_would_cost_more_than_it_may_is_said_to_be_stopped(live: LiveHome, tmp_path: Path) -> None:
    dear = manifest("true", name="dear", expectedSeconds=3_600, maxCost=10)
    done = await windlass(live, "plan", "-f", written(tmp_path / "dear.yaml", dear))
    assert (done.returncode, done.stderr) == (0, "")
    assert rows(done)["dear"].endswith("then stopped by its maxCost")
