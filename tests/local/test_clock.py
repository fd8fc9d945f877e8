"""Service time: it only goes forward, over restarts and reboots, whatever the wall clock does."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.adapters.clock.service import MachineClocks, ServiceClock
from windlass.boot.greeting import greet
from windlass.boot.installation import Installation
from windlass.core.model.ids import Millis
from windlass.core.model.resources import Resources
from windlass.ports import runtime

DAY = 86_400_000


class Machine:
    """A machine whose clocks a test turns."""

    def __init__(self) -> None:
        self.boottime = 50_000
        self.wall = 1_800_000_000_000
        self.boot = "first"

    def clocks(self) -> MachineClocks:
        return MachineClocks(boottime_ms=lambda: self.boottime, wall_ms=lambda: self.wall, boot_id=lambda: self.boot)

    def pass_time(self, span: int) -> None:
        self.boottime += span
        self.wall += span

    def reboot(self, *, away: int) -> None:
        self.boot += "+"
        self.boottime = 0
        self.wall += away


def test_it_begins_with_the_wall_clock(tmp_path: Path) -> None:
    machine = Machine()
    assert ServiceClock(tmp_path / "clock", clocks=machine.clocks()).now() == machine.wall


def test_a_jump_of_the_wall_clock_does_not_move_it(tmp_path: Path) -> None:
    machine = Machine()
    clock = ServiceClock(tmp_path / "clock", clocks=machine.clocks())
    before = clock.now()
    machine.wall += 8 * DAY
    assert clock.now() == before
    machine.wall -= 20 * DAY
    machine.pass_time(5)
    assert clock.now() == before + 5


def test_a_restart_on_the_same_boot_goes_on_by_boottime_alone(tmp_path: Path) -> None:
    machine = Machine()
    before = ServiceClock(tmp_path / "clock", clocks=machine.clocks()).now()
    machine.pass_time(7_000)
    machine.wall += 8 * DAY
    assert ServiceClock(tmp_path / "clock", clocks=machine.clocks()).now() == before + 7_000


def test_a_reboot_counts_the_wall_clocks_difference(tmp_path: Path) -> None:
    machine = Machine()
    before = ServiceClock(tmp_path / "clock", clocks=machine.clocks()).now()
    machine.reboot(away=60_000)
    assert ServiceClock(tmp_path / "clock", clocks=machine.clocks()).now() == before + 60_000


def test_a_reboot_that_seems_to_have_taken_days_is_held_until_confirmed(tmp_path: Path) -> None:
    machine = Machine()
    before = ServiceClock(tmp_path / "clock", clocks=machine.clocks()).now()
    machine.reboot(away=9 * DAY)
    clock = ServiceClock(tmp_path / "clock", clocks=machine.clocks())
    assert (clock.now(), clock.held_ms) == (before, 9 * DAY)
    again = ServiceClock(tmp_path / "clock", clocks=machine.clocks())
    assert (again.now(), again.held_ms) == (before, 9 * DAY)
    again.confirm()
    assert (again.now(), again.held_ms) == (before + 9 * DAY, 0)
    assert ServiceClock(tmp_path / "clock", clocks=machine.clocks()).held_ms == 0


def test_a_wall_clock_set_back_over_a_reboot_never_takes_time_back(tmp_path: Path) -> None:
    machine = Machine()
    before = ServiceClock(tmp_path / "clock", clocks=machine.clocks()).now()
    machine.reboot(away=-3 * 3_600_000)
    assert ServiceClock(tmp_path / "clock", clocks=machine.clocks()).now() == before


def test_what_people_see_follows_the_wall_clock_once_it_was_corrected(tmp_path: Path) -> None:
    machine = Machine()
    clock = ServiceClock(tmp_path / "clock", clocks=machine.clocks())
    at = clock.now()
    assert clock.wall(at) == at / 1000
    machine.wall += 3_600_000
    assert clock.wall(at) == at / 1000 + 3600


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["pass", "jump", "restart", "reboot"]), st.integers(-20 * DAY, 20 * DAY)), max_size=12
    )
)
def test_it_never_goes_back(steps: list[tuple[str, int]], tmp_path_factory: object) -> None:
    path = tmp_path_factory.mktemp("clock") / "clock"  # type: ignore[attr-defined]
    machine = Machine()
    clock = ServiceClock(path, clocks=machine.clocks())
    latest = Millis(0)
    for what, span in steps:
        match what:
            case "pass":
                machine.pass_time(abs(span))
            case "jump":
                machine.wall += span
            case "restart":
                clock = ServiceClock(path, clocks=machine.clocks())
            case "reboot":
                clock.anchor()
                machine.reboot(away=span)
                clock = ServiceClock(path, clocks=machine.clocks())
        assert clock.now() >= latest
        latest = clock.now()


def test_whoever_starts_a_server_is_told_that_time_is_held_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = runtime.Machine(runtime="docker", kind="container", capacity=Resources())
    greet("http://127.0.0.1:1", machine, Installation(tmp_path), None, held_ms=9 * DAY)
    assert "216 hours passed over a reboot" in (said := capsys.readouterr().err)
    assert "windlass doctor --confirm-clock" in said
    greet("http://127.0.0.1:1", machine, Installation(tmp_path), None)
    assert "reboot" not in capsys.readouterr().err
