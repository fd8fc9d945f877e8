"""Who is asking for what, in the task that serves the request. Set by a door once it knows, read when a decision is made.

A context variable and not an argument: every verb between door and brain would have to pass it on, and one that forgot would leave
a change without its author. The loops decide in tasks of their own, in nobody's name.
"""

from contextvars import ContextVar
from typing import Final

from windlass.core.model.audit import Act

acting: Final[ContextVar[Act | None]] = ContextVar("acting", default=None)
