"""Of one lane, the jobs that keep no order: kept apart, so that the many that do cost nothing for it. See `lanes`."""

from heapq import heapify, heappop, heappush

from windlass.core.fairness.ranks import NEVER, Rank
from windlass.core.model.job import Job


class Strays:
    """Those that came after one of higher rank, and those that left while they were not the head."""

    __slots__ = ("gone", "late", "numbered")

    def __init__(self) -> None:
        self.late: list[tuple[Rank, int, Job]] = []
        """A heap, each with its number: a job that left out of turn and came back changed has the rank of the one that is still
        to be dropped."""
        self.numbered = 0
        self.gone: dict[int, int] = {}
        """Of those that left, by identity: how often. They are dropped when they surface."""

    def come(self, rank: Rank, job: Job) -> None:
        self.numbered += 1
        heappush(self.late, (rank, self.numbered, job))

    def leave(self, job: Job) -> None:
        late = self.late
        if late and late[0][2] is job:
            heappop(late)
        else:
            self.gone[id(job)] = self.gone.get(id(job), 0) + 1

    def first_rank(self) -> Rank:
        """Of those that came late; above every rank when there are none."""
        late = self.late
        while late and self.gone and self.was_gone(late[0][2]):
            heappop(late)
        return late[0][0] if late else NEVER

    def was_gone(self, job: Job) -> bool:
        times = self.gone.get(id(job), 0)
        if times > 1:
            self.gone[id(job)] = times - 1
        elif times:
            del self.gone[id(job)]
        return times > 0

    def tidy(self) -> None:
        self.late = [entry for entry in self.late if not self.was_gone(entry[2])]
        heapify(self.late)
