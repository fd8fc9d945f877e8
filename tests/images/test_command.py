"""image-sync as a process: exit codes, lock, signals, kill -9, output for people and for programs."""

import contextlib
import csv
import io
import json
import os
import pty
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.images import making
from tests.images.lab import Lab, LabNode
from tests.parts import present
from tests.parts.waiting import wait_for
from windlass.images.lock import sync_lock

SYNC = "import sys; from windlass.images.command import image_sync; image_sync(prog_name='image-sync')"
GROUP = "import sys; from windlass.images.command import images; images(prog_name='images')"


def command(*arguments: object, script: str = SYNC) -> list[str]:
    return [sys.executable, "-c", script, *map(str, arguments)]


def run(*arguments: object, script: str = SYNC, **options: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command(*arguments, script=script),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,  # type: ignore[call-overload]
    )


def logged(directory: Path, kind: str = "image-sync") -> str:
    return "".join(path.read_text() for path in sorted(directory.glob(f"{kind}-*.log")))


def a_hanging_node(lab: Lab, marker: str) -> LabNode:
    """Its pulls never end by themselves."""
    return lab.scripted_node(
        {"docker": f'case "$1 $2" in "image ls"|"version "*) exit 0;; pull*) exec sleep {marker};; esac'}
    )


@pytest.fixture
def half_synced(lab: Lab, tmp_path: Path) -> tuple[Path, str, LabNode, LabNode]:
    """A config file of two nodes of which the second lacks an image."""
    one, two = lab.docker(2)
    prefix = lab.repository()
    name = lab.push(f"{prefix}app", "1", making.layer({"x": os.urandom(100)}))
    one.ssh.run("docker", "pull", "-q", name)
    return lab.config_file(tmp_path / "sync.conf", [one, two], prefix, tmp_path / "logs"), name, one, two


def test_a_run_from_a_file_ends_well_and_says_so(half_synced: tuple[Path, str, LabNode, LabNode]) -> None:
    config, name, _, two = half_synced
    done = run("--config", config)
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 image equal on all 2 nodes" in done.stdout
    assert name in two.ids()
    assert "SYNC COMPLETE: exit 0" in logged(config.parent / "logs")


def test_json_is_all_there_is_on_stdout(half_synced: tuple[Path, str, LabNode, LabNode]) -> None:
    config, name, one, two = half_synced
    report = json.loads(run("-c", config, "--json").stdout)
    assert (report["exit"], report["even"], report["dry_run"]) == (0, True, False)
    assert report["nodes"][one.name] == {"ok": True, "runtime": "docker"}
    assert [(r["node"], r["image"], r["outcome"], r["via"]) for r in report["results"]] == [
        (two.name, name, "SUCCESS", "registry")
    ]


def test_a_dry_run_leaves_the_node_as_it_was(half_synced: tuple[Path, str, LabNode, LabNode]) -> None:
    config, name, _, two = half_synced
    done = run("-c", config, "--dry-run")
    assert done.returncode == 0
    assert f"{two.name}  {name}" in done.stdout
    assert "nothing was done" in done.stdout
    assert name not in two.ids()


def test_status_draws_the_matrix_in_three_shapes(half_synced: tuple[Path, str, LabNode, LabNode]) -> None:
    config, name, one, two = half_synced
    text = run("status", "-c", config, script=GROUP)
    row = next(line for line in text.stdout.splitlines() if line.startswith(name))
    assert (text.returncode, row.split()[-2:]) == (0, ["=", "-"])
    assert run("status", "-c", config, "--exit-code", script=GROUP).returncode == 3
    rows = list(csv.DictReader(io.StringIO(run("status", "-c", config, "--csv", script=GROUP).stdout)))
    assert [(r["image"], r["node"], r["state"]) for r in rows] == [
        (name, one.name, "present"),
        (name, two.name, "missing"),
    ]
    assert int(rows[0]["size"]) > 0
    document = json.loads(run("status", "-c", config, "--json", script=GROUP).stdout)
    assert document["images"][0]["nodes"][two.name] == {"state": "missing", "id": None, "size": 0}
    assert document["images"][0]["nodes"][one.name]["id"] == one.ids()[name]


def test_the_command_line_alone_is_enough(
    half_synced: tuple[Path, str, LabNode, LabNode], lab: Lab, tmp_path: Path
) -> None:
    _, name, one, two = half_synced
    known = lab.known_hosts([one, two])
    done = run(
        *("-n", one.name, "-n", two.name, "-p", name.rpartition(":")[0], "--log-dir", tmp_path / "other"),
        *("--set", f"SSH_KEY={lab.key}", "--set", f"SSH_KNOWN_HOSTS={known}", "--set", "MIN_FREE=0", "--json"),
        cwd=tmp_path,
    )
    assert (done.returncode, json.loads(done.stdout)["even"]) == (0, True)


def test_without_settings_every_missing_key_is_named_and_the_exit_is_1(tmp_path: Path) -> None:
    done = run(cwd=tmp_path, env={**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)})
    assert (done.returncode, done.stdout) == (1, "")
    assert "NODES, PREFIXES, LOG_DIR" in done.stderr


def test_init_writes_a_file_once(tmp_path: Path) -> None:
    assert run("--init", cwd=tmp_path).returncode == 0
    before = (tmp_path / "image-sync.conf").read_text()
    again = run("--init", cwd=tmp_path)
    assert (again.returncode, (tmp_path / "image-sync.conf").read_text()) == (1, before)
    assert "not touched" in again.stderr


def test_a_node_whose_key_is_unknown_or_changed_is_refused(
    half_synced: tuple[Path, str, LabNode, LabNode], lab: Lab, tmp_path: Path
) -> None:
    config, _, one, two = half_synced
    swapped = tmp_path / "swapped"
    key_of_one = one.ssh.known_hosts_line.partition(" ")[2]
    swapped.write_text(f"{one.ssh.known_hosts_line}\n[{two.ssh.address}]:{two.ssh.port} {key_of_one}\n")
    report = json.loads(run("-c", config, "--json", "--set", f"SSH_KNOWN_HOSTS={swapped}").stdout)
    assert report["exit"] == 3
    assert report["nodes"][one.name]["ok"]
    assert report["nodes"][two.name]["code"] == "ssh.host_key"


def test_ssh_config_agent_and_jump_host_are_honoured(
    half_synced: tuple[Path, str, LabNode, LabNode], lab: Lab, tmp_path: Path
) -> None:
    """`far` is an alias whose user, port and way (through the first node) stand in ssh's own configuration; the key
    is in an agent alone."""
    _, name, one, two = half_synced
    settings = tmp_path / "ssh_config"
    settings.write_text(
        f"Host far\n  HostName {two.ssh.address}\n  Port {two.ssh.port}\n  User {two.ssh.user}\n  ProxyJump near\n"
        f"Host near\n  HostName {one.ssh.address}\n  Port {one.ssh.port}\n  User {one.ssh.user}\n"
    )
    known = lab.known_hosts([one, two])
    logins = one.ssh.log.read_text().count("Accepted publickey")
    with an_agent(lab.key, tmp_path) as environment:
        done = run(
            *("-n", "far", "-n", "near", "-p", name.rpartition(":")[0], "--log-dir", tmp_path / "l", "--json"),
            *("--set", f"SSH_CONFIG={settings}", "--set", f"SSH_KNOWN_HOSTS={known}", "--set", "MIN_FREE=0"),
            env=environment,
            cwd=tmp_path,
        )
    report = json.loads(done.stdout)
    assert (report["exit"], sorted(report["nodes"])) == (0, ["far", "near"])
    # Once for itself, once as the way to the other.
    assert one.ssh.log.read_text().count("Accepted publickey") == logins + 2


def test_jump_hosts_that_lead_through_each_other_are_a_fault_of_that_node(lab: Lab, tmp_path: Path) -> None:
    settings = tmp_path / "ssh_config"
    settings.write_text("Host a\n  ProxyJump b\nHost b\n  ProxyJump a\n")
    done = run(*("-n", "a", "-p", "x/", "--log-dir", tmp_path, "--json", "--set", f"SSH_CONFIG={settings}"))
    assert json.loads(done.stdout)["nodes"]["a"]["code"] == "ssh.jumps"
    assert done.returncode == 3


class an_agent:  # noqa: N801 - reads as one word in a with statement
    """An ssh-agent with one key, and an environment without any other."""

    def __init__(self, key: Path, home: Path) -> None:
        self._key, self._home = key, home

    def __enter__(self) -> dict[str, str]:
        socket = self._home / "agent"
        self._process = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
        wait_for(socket.exists, 120, "the agent")
        environment = {**os.environ, "HOME": str(self._home), "SSH_AUTH_SOCK": str(socket)}
        subprocess.run(["ssh-add", "-q", str(self._key)], env=environment, check=True, capture_output=True)
        return environment

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(120)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_run_the_remote_pull_and_the_lock(
    number: signal.Signals, code: int, lab: Lab, tmp_path: Path
) -> None:
    one = lab.docker(1)[0]
    marker = f"{32_000_000 + os.getpid() * 10 + number}"
    config, environment = a_stuck_config(lab, one, marker, tmp_path)
    foreign = tmp_path / "tmp" / "tmp.foreign"
    process = subprocess.Popen(command("-c", config), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    wait_for(lambda: pulling(marker), 120, "the pull to begin")
    process.send_signal(number)
    _, errors = process.communicate(timeout=240)
    assert process.returncode == code
    assert f"interrupted by signal {number.value}" in errors.decode()
    assert f"SYNC INTERRUPTED: signal {number.value}" in logged(tmp_path / "logs")
    wait_for(lambda: not pulling(marker), 120, "the remote pull to end")
    assert [path.name for path in (tmp_path / "tmp").iterdir()] == [foreign.name]
    assert foreign.read_text() == "not ours"
    assert_next_run_works(config, environment)


def test_kill_9_leaves_nothing_that_blocks_the_next_run(lab: Lab, tmp_path: Path) -> None:
    one = lab.docker(1)[0]
    marker = f"{33_000_000 + os.getpid()}"
    config, environment = a_stuck_config(lab, one, marker, tmp_path)
    process = subprocess.Popen(
        command("-c", config), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    try:
        wait_for(lambda: pulling(marker), 120, "the pull to begin")
        process.kill()
        process.wait(120)
        assert [path.name for path in (tmp_path / "tmp").iterdir()] == ["tmp.foreign"]
        assert_next_run_works(config, environment)
    finally:
        for pid in pulling(marker):
            with contextlib.suppress(ProcessLookupError):  # it may end by itself between our looking and our asking
                os.kill(pid, signal.SIGTERM)


def test_a_second_run_says_so_on_stderr_and_in_the_log_and_exits_1(lab: Lab, tmp_path: Path) -> None:
    one = lab.docker(1)[0]
    marker = f"{34_000_000 + os.getpid()}"
    config, environment = a_stuck_config(lab, one, marker, tmp_path)
    first = subprocess.Popen(
        command("-c", config), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    try:
        wait_for(lambda: pulling(marker), 120, "the first run's pull")
        second = run("-c", config, env=environment)
        assert (second.returncode, second.stdout) == (1, "")
        assert f"another image-sync is running (pid {first.pid} on " in second.stderr
        assert f"another image-sync is running (pid {first.pid} on " in logged(tmp_path / "logs")
        assert logged(tmp_path / "logs").count("SYNC STARTED") == 1
    finally:
        first.terminate()
        first.wait(120)


def test_status_may_look_while_a_sync_runs(half_synced: tuple[Path, str, LabNode, LabNode], tmp_path: Path) -> None:
    config, *_ = half_synced
    with sync_lock(tmp_path / "lock", since=datetime(2026, 3, 2, tzinfo=UTC)):
        assert run("-c", config, "--lock-file", tmp_path / "lock").returncode == 1
        assert run("status", "-c", config, "--lock-file", tmp_path / "lock", script=GROUP).returncode == 0


def test_on_a_terminal_every_node_has_a_bar(half_synced: tuple[Path, str, LabNode, LabNode]) -> None:
    config, _, _, two = half_synced
    shown, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "160"}
    process = subprocess.Popen(command("-c", config), stdout=subprocess.PIPE, stderr=terminal, env=environment)
    os.close(terminal)
    drawn = b""
    with contextlib.suppress(OSError):  # the terminal goes with the last process that has it open
        while piece := os.read(shown, 4096):
            drawn += piece
    summary, _ = process.communicate(timeout=240)
    os.close(shown)
    assert process.returncode == 0
    assert two.name in drawn.decode()
    assert "1/1 images" in drawn.decode()
    assert "equal on all 2 nodes" in summary.decode()


def test_what_an_interrupted_run_got_is_not_got_again(lab: Lab, tmp_path: Path) -> None:
    """The second node pulls five of six and hangs at the last; after SIGTERM the next run asks for that one alone."""
    one = lab.docker(1)[0]
    prefix = lab.repository()
    names = [lab.push(f"{prefix}app{i}", "1", making.layer({"x": os.urandom(100 + i)})) for i in range(6)]
    for name in names:
        one.ssh.run("docker", "pull", "-q", name)
    store = tmp_path / "store"
    store.mkdir()
    for name in names:
        (document,) = json.loads(one.ssh.run("docker", "image", "inspect", name).stdout)
        (store / f"{document['Id'].removeprefix('sha256:')}.json").write_text(
            json.dumps({**document, "RepoDigests": []})
        )
    last, marker = names[0].rpartition("/")[2], f"{35_000_000 + os.getpid()}"
    (tmp_path / "got").mkdir()
    script = f"""case "$1 $2" in
      version*) exit 0;;
      "image ls") for f in {tmp_path}/got/*; do [ -e $f ] && echo sha256:$(basename $f .json); done; exit 0;;
      "image inspect") shift 2; sep='['; for i; do printf %s "$sep"; cat {tmp_path}/got/${{i#sha256:}}.json; sep=,; done; echo ']';;
      pull*) echo "$2" >> {tmp_path}/calls
        case "$2" in *{last}) [ -e {tmp_path}/open ] || exec sleep {marker};; esac
        cp $(grep -l "$2" {store}/*) {tmp_path}/got/;;
    esac"""
    tools = {name: f'exec {present.program(name)} "$@"' for name in ("cp", "grep", "basename")}
    node = lab.scripted_node({"docker": script, **tools})
    config = lab.config_file(tmp_path / "c.conf", [one, node], prefix, tmp_path / "logs", PEERS="never")
    first = subprocess.Popen(command("-c", config), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: pulling(marker) and len(list((tmp_path / "got").iterdir())) == 5, 120, "five of six")
    first.terminate()
    assert first.wait(120) == 143
    (tmp_path / "calls").unlink()
    (tmp_path / "open").touch()
    assert run("-c", config).returncode == 0
    assert (tmp_path / "calls").read_text().split() == [names[0]]


def a_stuck_config(lab: Lab, one: LabNode, marker: str, tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A run with this file pulls for ever on its second node; temporary files would go to an own directory."""
    prefix = lab.repository()
    name = lab.push(f"{prefix}app", "1", making.layer({"x": os.urandom(100)}))
    one.ssh.run("docker", "pull", "-q", name)
    stuck = a_hanging_node(lab, marker)
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / "tmp.foreign").write_text("not ours")
    config = lab.config_file(tmp_path / "stuck.conf", [one, stuck], prefix, tmp_path / "logs")
    return config, {**os.environ, "TMPDIR": str(tmp_path / "tmp")}


def assert_next_run_works(config: Path, environment: dict[str, str]) -> None:
    again = run("-c", config, "--dry-run", "--json", env=environment)
    assert again.returncode == 0, again.stderr
    assert len(json.loads(again.stdout)["wanted"]) == 1


def pulling(marker: str) -> list[int]:
    """Processes that sleep for the marker's seconds: the remote side of a hanging pull."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[:2] == [b"sleep", marker.encode()]:
                found.append(int(entry.name))
    return found
