"""Plays a seed and judges it: the one thing the tests and the replay command share."""

from collections import Counter
from dataclasses import dataclass

from tests.simulation.scenario import Outcome, play
from windlass.testing.audit_checkers import check_audit
from windlass.testing.checkers import check_history
from windlass.testing.money_checkers import check_money
from windlass.testing.resting import check_rest


@dataclass(frozen=True)
class Verdict:
    seed: int
    wrong: list[str]
    history: bytes
    jobs: int
    runs: int
    virtual_seconds: float
    quiet_after_seconds: float
    faults: Counter[str]
    """How often each kind was really done; what store and network do to single calls comes beside it."""


def judge(seed: int) -> Verdict:
    async def look(outcome: Outcome) -> Verdict:
        cluster = outcome.cluster
        lines = cluster.history.lines
        wrong = [] if outcome.is_quiet else ["liveness: not everything has ended"]
        wrong += outcome.wrong
        wrong += check_rest(cluster)
        wrong += check_history(lines, healed_at=outcome.healed_at, nodes=cluster.nodes)
        wrong += check_money(lines)
        wrong += check_audit(lines)
        return Verdict(
            seed=seed,
            wrong=wrong,
            history=cluster.history.jsonl(),
            jobs=len({line["key"] for line in lines if line["kind"] == "store" and line["table"] == "jobs"}),
            runs=sum(line["kind"] == "machine" and line["what"] == "started" for line in lines),
            virtual_seconds=cluster.loop.time(),
            quiet_after_seconds=(outcome.quiet_at - outcome.healed_at) / 1000,
            faults=Counter(line["what"] for line in lines if line["kind"] == "fault" and line["what"] != "mended"),
        )

    return play(seed, look)
