"""Twenty seeds of trouble, each ten minutes and more of virtual time. A failing one says how to replay it."""

from pathlib import Path

import pytest

from tests.simulation.verdict import Verdict, judge

SEEDS = range(20)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_of_trouble_breaks_no_promise(seed: int, tmp_path: Path) -> None:
    verdict = judge(seed)
    assert verdict.virtual_seconds >= 600
    assert verdict.jobs >= 100
    assert verdict.faults.total() >= 10, f"hardly anything went wrong: {dict(verdict.faults)}"
    print(f"seed {seed}: {dict(verdict.faults)}")
    assert not verdict.wrong, _explain(verdict, tmp_path)


def _explain(verdict: Verdict, directory: Path) -> str:
    path = directory / f"simulation-{verdict.seed}.jsonl"
    path.write_bytes(verdict.history)
    lines = [
        *verdict.wrong[:20],
        f"history: {path}",
        f"replay: .venv/bin/python -m tests.simulation.replay --seed {verdict.seed}",
    ]
    return "\n".join(lines)
