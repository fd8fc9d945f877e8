"""Replays seeds: `python -m tests.simulation.replay --seed N`, or a soak: `--seeds 0..1000 [--jobs 2]`.

A seed that shows something wrong leaves its history as `simulation-N.jsonl` in the directory given by `--keep`.
"""

import argparse
import sys
import time
from multiprocessing import get_context
from pathlib import Path

from tests.simulation.verdict import Verdict, judge

_SHOWN = 25


def main() -> int:
    options = _parse()
    first, last = options.seeds if options.seeds else (options.seed, options.seed)
    began = time.monotonic()
    failed, virtual, jobs = [], 0.0, 0
    with get_context("spawn").Pool(options.jobs, maxtasksperchild=10) as pool:
        seeds = range(first, last + 1)
        verdicts = map(judge, seeds) if options.jobs == 1 else pool.imap(judge, seeds)
        for verdict in verdicts:
            virtual, jobs = virtual + verdict.virtual_seconds, jobs + verdict.jobs
            _tell(verdict, options.keep, is_alone=first == last)
            if verdict.wrong:
                failed.append(verdict.seed)
    say = (
        f"{last - first + 1} seeds, {jobs} jobs, {virtual / 3600:.1f} virtual hours in {time.monotonic() - began:.0f} s"
    )
    print(f"{say}; failed: {failed or 'none'}")
    return 1 if failed else 0


def _tell(verdict: Verdict, keep: Path, *, is_alone: bool) -> None:
    if verdict.wrong or is_alone:
        path = keep / f"simulation-{verdict.seed}.jsonl"
        path.write_bytes(verdict.history)
        print(f"seed {verdict.seed}: {len(verdict.wrong)} wrong; history in {path}")
        print(f"  faults: {dict(verdict.faults)}")
        for one in verdict.wrong[:_SHOWN]:
            print(f"  {one}")
    elif verdict.seed % 50 == 0:
        print(f"seed {verdict.seed}: {verdict.jobs} jobs, quiet {verdict.quiet_after_seconds:.0f} s after the heal")
    sys.stdout.flush()


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=_span, help="FIRST..LAST")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument("--keep", type=Path, default=Path(), help="where histories of failing seeds go")
    return parser.parse_args()


def _span(text: str) -> tuple[int, int]:
    first, _, last = text.partition("..")
    return int(first), int(last)


if __name__ == "__main__":
    sys.exit(main())
