"""Every change the World makes, in order: the committer writes it out, a trial or a refused commit takes it back."""

from collections import deque
from collections.abc import Iterator
from itertools import islice

from windlass.core.model.audit import Deed
from windlass.core.world.entry import Entry


class Journal:
    """The changes that are not durable yet, oldest first. At most one batch of them is with the committer at a time."""

    def __init__(self) -> None:
        self.entries: deque[Entry] = deque()
        self.append = self.entries.append
        """A new entry: a job's life has a dozen and a half, so the call goes straight through."""
        self._taken = 0

    def __len__(self) -> int:
        return len(self.entries)

    def tail(self, since: int) -> list[Entry]:
        """The entries from place `since` on; few, and so found from the end."""
        return [self.entries[place] for place in range(since - len(self.entries), 0)]

    def sign(self, deed: Deed) -> None:
        """The newest decision gets its author."""
        last = self.entries[-1]
        self.entries[-1] = Entry(last.number, last.table, last.key, last.old, last.new, deed)

    def take(self, entries_max: int) -> list[Entry]:
        """The oldest entries, whole decisions only; one whole decision at least, even if it is larger."""
        assert self._taken == 0, "the previous batch is still with the committer"
        end = self._decision_boundary(entries_max)
        self._taken = end
        return list(islice(self.entries, end))

    def retake(self, entries_max: int) -> list[Entry]:
        """A smaller batch in place of the one taken."""
        self._taken = 0
        return self.take(entries_max)

    def settle(self) -> None:
        """The batch that was taken is durable: it can no longer be undone."""
        if self._taken == len(self.entries):
            self.entries.clear()
        else:
            for _ in range(self._taken):
                self.entries.popleft()
        self._taken = 0

    def undo_to(self, size: int) -> Iterator[Entry]:
        """Take entries back, newest first, until `size` are left."""
        while len(self.entries) > size:
            yield self.entries.pop()
        self._taken = min(self._taken, size)

    def _decision_boundary(self, entries_max: int) -> int:
        end = min(len(self.entries), entries_max)
        if end == len(self.entries):
            return end
        number = self.entries[end].number
        cut = end
        while cut and self.entries[cut - 1].number == number:
            cut -= 1
        if cut:
            return cut
        while end < len(self.entries) and self.entries[end].number == number:
            end += 1
        return end
