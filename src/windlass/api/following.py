"""A job followed live: its state each time it changes, beginning with now. What log and event streams wait on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from windlass.api.context import Context
from windlass.core.errors import NotFound, Unavailable
from windlass.core.model.views import JobView


@asynccontextmanager
async def followed(context: Context, view: JobView) -> AsyncIterator[AsyncIterator[JobView]]:
    """Yields the job as it is and then every change; ends only when it is deleted. Unavailable when this reader fell behind."""
    read_model = context.plane.read_model
    async with read_model.follow(tenant=view.job.tenant) as changes:
        # Subscribed first, then read: a change in between is seen twice rather than never.
        yield _changes(context, await read_model.find_job(view.job.tenant, view.job.id), changes)


async def _changes(context: Context, first: JobView, changes: AsyncIterator[JobView]) -> AsyncIterator[JobView]:
    yield first
    async for change in changes:
        if change.job.id != first.job.id:
            continue
        if change.job.is_deleted and change.job.is_over:
            yield change
            return
        try:
            # A change carries no runs; whoever follows wants them.
            view = await context.plane.read_model.find_job(first.job.tenant, first.job.id)
        except NotFound:
            continue  # erased meanwhile: that is the next change
        yield view
    raise Unavailable("this follower fell behind", code="follower-behind", retry_after_seconds=1)
