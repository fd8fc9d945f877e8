"""The numbers the queue goes by: ranks within a tenant, and entries across tenants, which also say whose they are.

Plain integers, packed: small to keep, quick to compare, and no two jobs are ever equal.
"""

from typing import Final

from windlass.core.model.job import Job
from windlass.core.model.shape import Shape

Rank = int
"""Urgent jobs first, by their deadline; then by priority; then by acceptance. One number: small to keep and quick to compare."""
Entry = int
"""A finish tag, then the rank: at equal tags urgency, priority and acceptance decide, and no two jobs are equal. In its lowest bits
the number of the share or band it stands for."""
BandKey = Shape | tuple[Shape, int]

NUMBER_BITS: Final = 32
NUMBER_MASK: Final = (1 << NUMBER_BITS) - 1
PRIORITY_BITS: Final = 48
"""Below a priority, or a deadline, lies the number of acceptance."""
_LEVEL_BITS: Final = 44
"""Of a deadline in milliseconds; a level of urgency lies above it."""
RANK_BITS: Final = 48 + PRIORITY_BITS
TAG_BITS: Final = RANK_BITS + NUMBER_BITS
"""What lies below a tag."""
SLACK: Final = 64
"""A heap with more dead entries than live ones and these is made anew, so that a storm of cancels leaves nothing behind."""
NEVER: Final = 1 << RANK_BITS
"""Above every rank."""


def rank_of(job: Job, level: int) -> Rank:
    """Without urgency and priority, as most are, the very number of acceptance: nothing is made for it."""
    if level:
        return (((job.due_at or 0) - (level << _LEVEL_BITS)) << PRIORITY_BITS) + job.seq
    return job.seq - (job.priority << PRIORITY_BITS) if job.priority else job.seq


def band_key(job: Job) -> BandKey:
    """Jobs of one shape with about the same timeout: some of them may pass a waiting head, others not."""
    timeout = job.timeout_ms
    return job.shape if timeout is None else (job.shape, timeout.bit_length())
