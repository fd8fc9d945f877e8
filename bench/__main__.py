"""`make bench`: every figure beside its floor, in one run. `python -m bench submits` runs one group."""

import sys

from bench import admission, containers, dispatch, fairness, pools, simulate, starts, submits, world
from bench.report import Bench, show

GROUPS: dict[str, Bench] = {
    "submits": submits.main,
    "dispatch": dispatch.main,
    "starts": starts.main,
    "containers": containers.main,
    "fairness": fairness.main,
    "admission": admission.main,
    "pools": pools.main,
    "simulate": simulate.main,
    "world": world.main,
}


def main() -> None:
    wanted = sys.argv[1:] or list(GROUPS)
    unknown = [name for name in wanted if name not in GROUPS]
    if unknown:
        sys.exit(f"no such bench: {', '.join(unknown)}; there are {', '.join(GROUPS)}")
    missed = 0
    for name in wanted:
        figures = GROUPS[name]()
        show(name, figures)
        missed += sum(not figure.is_met for figure in figures)
    print(f"\n{missed} figure{'s' * (missed != 1)} missed" if missed else "\nall figures met")


if __name__ == "__main__":
    main()
