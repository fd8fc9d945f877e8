"""The read model's tables. They can be thrown away and refilled (but for history older than the store's outbox)."""

from typing import Final

VERSION: Final = 1

STATEMENTS: Final = (
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
