"""The node's journal: what was noted before an act is known after a crash; what was torn was never announced."""

from pathlib import Path

import pytest

from windlass.agent.journal import Journal
from windlass.core.model.ids import Millis, RunId, VolumeId

pytestmark = pytest.mark.anyio
RUN, OTHER, VOLUME = RunId("r-1"), RunId("r-2"), VolumeId("v")


async def test_what_was_noted_is_known_to_the_next_agent(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    await journal.note_epoch(7)
    await journal.note_starting(RUN, now=Millis(1234))
    await journal.note_staged(VOLUME)
    again = Journal(tmp_path / "journal")
    assert again.epoch == 7
    assert again.was_started(RUN)
    assert again.started_at(RUN) == 1234
    assert again.is_staged(VOLUME)
    assert not again.was_started(OTHER)


async def test_the_first_start_counts(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    await journal.note_starting(RUN, now=Millis(1))
    await journal.note_starting(RUN, now=Millis(99))
    assert journal.started_at(RUN) == 1


async def test_what_is_forgotten_stays_forgotten(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    await journal.note_starting(RUN, now=Millis(1))
    await journal.forget(RUN)
    await journal.note_starting(OTHER, now=Millis(2))
    again = Journal(tmp_path / "journal")
    assert not again.was_started(RUN)
    assert again.was_started(OTHER)


async def test_every_torn_end_leaves_what_was_whole(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    await journal.note_starting(RUN, now=Millis(1))
    await journal.note_starting(OTHER, now=Millis(2))
    data = (tmp_path / "journal").read_bytes()
    ends = [n + 1 for n, byte in enumerate(data) if byte == ord("\n")]
    for cut in range(len(data)):
        torn = tmp_path / f"torn{cut}"
        torn.write_bytes(data[:cut])
        known = Journal(torn)
        assert known.was_started(RUN) is (cut >= ends[1] - 1)
        assert known.was_started(OTHER) is (cut >= ends[2] - 1)
