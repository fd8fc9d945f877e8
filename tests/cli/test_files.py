"""`cp` and `download`, against a stub server."""

import io
import tarfile
from pathlib import Path

from tests.cli.conftest import Invoke
from tests.cli.stub import Stub, a_job

from windlass.cli.commands.files import Remote, remote


def a_tar(**files: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name.replace("__", "/"))
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def test_download_fetches_everything_into_a_directory_of_its_own(stub: Stub, windlass: Invoke, tmp_path: Path) -> None:
    stub.jobs["a"] = a_job("a")
    stub.downloads["tar:"] = a_tar(x=b"1", sub__y=b"22")
    result = windlass("download", "a", "-d", str(tmp_path / "out"))
    assert result.output == f"2 files, 3 B → {tmp_path}/out/\n"
    assert (tmp_path / "out/sub/y").read_bytes() == b"22"


def test_cp_brings_one_file_under_a_new_name_or_into_a_directory(stub: Stub, windlass: Invoke, tmp_path: Path) -> None:
    stub.jobs["a"] = a_job("a")
    stub.downloads["tar:out.json"] = a_tar(**{"out.json": b"{}"})
    assert windlass("cp", "a:/artifacts/out.json", str(tmp_path)).output == f"1 file, 2 B → {tmp_path}/out.json\n"
    assert windlass("cp", "a:/artifacts/out.json", str(tmp_path / "new.json")).exit_code == 0
    assert (tmp_path / "new.json").read_bytes() == b"{}"


def test_cp_brings_a_directory(stub: Stub, windlass: Invoke, tmp_path: Path) -> None:
    stub.jobs["a"] = a_job("a")
    stub.downloads["tar:sub"] = a_tar(sub__x=b"1", sub__y=b"2")
    assert windlass("cp", "a:sub", str(tmp_path / "mine")).output == f"2 files, 2 B → {tmp_path}/\n"
    assert (tmp_path / "mine/x").read_bytes() == b"1"


def test_cp_to_stdout_gives_the_bytes_alone(stub: Stub, windlass: Invoke) -> None:
    stub.jobs["a"] = a_job("a")
    stub.downloads["file:out.bin"] = bytes(range(256))
    assert windlass("cp", "a:out.bin", "-").stdout_bytes == bytes(range(256))


def test_cp_sends_files_and_directories_to_a_suspended_job(stub: Stub, windlass: Invoke, tmp_path: Path) -> None:
    stub.jobs["a"] = a_job("a", spec__suspend=True)
    (tmp_path / "f.txt").write_text("hello")
    assert windlass("cp", str(tmp_path / "f.txt"), "a:/data/").output == "5 B → a:/artifacts/data/f.txt\n"
    assert stub.uploads["data/f.txt"] == b"hello"
    assert windlass("cp", str(tmp_path), "a:/data").exit_code == 0
    with tarfile.open(fileobj=io.BytesIO(stub.uploads["data"])) as tar:
        assert tar.getnames() == ["f.txt"]
    assert stub.asked[-1].query["unpack"] == ["true"]


def test_cp_to_a_job_that_has_started_says_so(stub: Stub, windlass: Invoke, tmp_path: Path) -> None:
    stub.jobs["a"] = a_job("a")
    (tmp_path / "f.txt").write_text("hello")
    result = windlass("cp", str(tmp_path / "f.txt"), "a:/f.txt")
    assert result.exit_code == 5
    assert "no longer suspended" in result.stderr


def test_a_job_in_a_copy_may_stand_as_o_name_prints_it() -> None:
    assert remote("job/a:/artifacts/x") == remote("a:x") == Remote("a", "x")
    assert remote("./job/a:b") is None
    assert remote("jobs/a:b") is None
