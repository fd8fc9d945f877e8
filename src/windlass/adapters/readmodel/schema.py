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
    # Few: what an admin did to another's things, and what was made in bulk.
    "CREATE INDEX audit_by_owner ON audit (tenant, number) WHERE actor <> tenant",
    "CREATE INDEX audit_of_many ON audit (number) WHERE others <> ''",
)

_EVENTS: Final = (
    # In the order of commits, so that all that happened can be followed; a job's own are found by its id, a node's by its.
    "ALTER TABLE events RENAME TO job_events",
    """CREATE TABLE events (
         revision INTEGER NOT NULL, ordinal INTEGER NOT NULL, subject TEXT NOT NULL, tenant TEXT NOT NULL, doc BLOB NOT NULL,
         PRIMARY KEY (revision, ordinal, subject)
       ) WITHOUT ROWID""",
    """INSERT INTO events SELECT revision, ordinal, job, coalesce((SELECT tenant FROM jobs WHERE jobs.id = job), ''), doc
       FROM job_events""",
    "DROP TABLE job_events",
    "CREATE INDEX events_by_subject ON events (subject, revision, ordinal)",
    "CREATE INDEX events_by_tenant ON events (tenant, revision, ordinal)",
    "CREATE TABLE nodes (id TEXT PRIMARY KEY, doc BLOB NOT NULL) WITHOUT ROWID",
)

_COSTS: Final = (
    # The ledger outlives its jobs: what somebody deleted was paid for all the same. One row per segment, named by its run, so
    # that taking the same record in again changes nothing.
    """CREATE TABLE costs (
         run TEXT NOT NULL, ordinal INTEGER NOT NULL, tenant TEXT NOT NULL, pool TEXT NOT NULL, day INTEGER NOT NULL,
         job TEXT NOT NULL, name TEXT NOT NULL, start INTEGER NOT NULL, span_ms INTEGER NOT NULL, cost INTEGER NOT NULL,
         is_burst INTEGER NOT NULL, PRIMARY KEY (run, ordinal)
       ) WITHOUT ROWID""",
    "CREATE INDEX costs_by_day ON costs (tenant, day)",
    "CREATE INDEX costs_all_by_day ON costs (day)",
    """CREATE TABLE metered (
         run TEXT PRIMARY KEY, tenant TEXT NOT NULL, day INTEGER NOT NULL, doc BLOB NOT NULL
       ) WITHOUT ROWID""",
    "CREATE INDEX metered_by_day ON metered (tenant, day)",
    "CREATE INDEX metered_all_by_day ON metered (day)",
)

_SCALING: Final = (
    """CREATE TABLE scaling (
         pool TEXT NOT NULL, number INTEGER NOT NULL, at INTEGER NOT NULL, doc BLOB NOT NULL, PRIMARY KEY (pool, number)
       ) WITHOUT ROWID""",
)

_TOLD: Final = (
    # The last record that events were told from, where no other table has it.
    "CREATE TABLE told (key TEXT PRIMARY KEY, doc BLOB NOT NULL) WITHOUT ROWID",
)

_STORED: Final = ("ALTER TABLE costs ADD COLUMN is_stored INTEGER NOT NULL DEFAULT 0",)

STEPS: Final = (_JOBS, _AUDIT, _EVENTS, _COSTS, _SCALING, _TOLD, _STORED)
"""A file of version n has had the first n; a new table is a new step."""
VERSION: Final = len(STEPS)
