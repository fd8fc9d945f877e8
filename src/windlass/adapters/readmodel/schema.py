"""The read model's tables. They can be thrown away and refilled (but for history older than the store's outbox)."""

from typing import Final

_JOBS: Final = (
    """CREATE TABLE jobs (
         id TEXT PRIMARY KEY, tenant TEXT NOT NULL, name TEXT NOT NULL, state TEXT NOT NULL, kind TEXT NOT NULL,
         created_at INTEGER NOT NULL, finished_at INTEGER, revision INTEGER NOT NULL, doc BLOB NOT NULL
       ) WITHOUT ROWID""",
    # Ids are UUIDv7, so their order is the order of creation: every list pages along one of these, newest or oldest first.
    "CREATE INDEX jobs_by_tenant ON jobs (tenant, id)",
    "CREATE INDEX jobs_by_state ON jobs (tenant, state, id)",
    "CREATE INDEX jobs_by_name ON jobs (tenant, name, id)",
    "CREATE INDEX jobs_over ON jobs (finished_at) WHERE finished_at IS NOT NULL",
    "CREATE TABLE specs (job TEXT PRIMARY KEY, doc BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE runs (job TEXT NOT NULL, id TEXT NOT NULL, doc BLOB NOT NULL, PRIMARY KEY (job, id)) WITHOUT ROWID",
    """CREATE TABLE labels (
         key TEXT NOT NULL, value TEXT NOT NULL, job TEXT NOT NULL, PRIMARY KEY (key, value, job)
       ) WITHOUT ROWID""",
    """CREATE TABLE events (
         job TEXT NOT NULL, revision INTEGER NOT NULL, ordinal INTEGER NOT NULL, doc BLOB NOT NULL,
         PRIMARY KEY (job, revision, ordinal)
       ) WITHOUT ROWID""",
    "CREATE TABLE volumes (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, doc BLOB NOT NULL) WITHOUT ROWID",
    # How far we have read, and the highest acceptance number seen: a job above it is new, without asking.
    "CREATE TABLE position (only INTEGER PRIMARY KEY CHECK (only = 0), revision INTEGER NOT NULL, seq INTEGER NOT NULL)",
    "INSERT INTO position VALUES (0, 0, 0)",
)

_AUDIT: Final = (
    # By the number of the decision: one has one record, and their order is the order of commits.
    """CREATE TABLE audit (
         number INTEGER PRIMARY KEY, at INTEGER NOT NULL, subject TEXT NOT NULL, actor TEXT NOT NULL, token TEXT NOT NULL,
         address TEXT NOT NULL, request TEXT NOT NULL, verb TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,
         uid TEXT NOT NULL, tenant TEXT NOT NULL, others TEXT NOT NULL, refused TEXT NOT NULL, skipped INTEGER NOT NULL
       )""",
    "CREATE INDEX audit_by_actor ON audit (actor, number)",
    "CREATE INDEX audit_by_uid ON audit (uid, number)",
)

STEPS: Final = (_JOBS, _AUDIT)
"""A file of version n has had the first n; a new table is a new step."""
VERSION: Final = len(STEPS)
