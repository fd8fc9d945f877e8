"""A process that migrates a store and is killed before its n-th statement.

Run as `python -m tests.store.migrating DATABASE N`.
"""

import os
import signal
import sys
from pathlib import Path

from windlass.adapters.store.sqlite_schema import Migration, connect_writer, migrate

OLD_ROWS = 1_000

STEPS = (
    Migration(
        1,
        "CREATE TABLE old (x); "
        f"WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {OLD_ROWS}) INSERT INTO old SELECT x FROM n",
    ),
    Migration(2, "CREATE TABLE new (x, y); INSERT INTO new SELECT x, x * x FROM old; DROP TABLE old"),
    Migration(3, "CREATE TABLE other (x); CREATE INDEX new_by_y ON new (y); INSERT INTO other VALUES (1)"),
)


def main(path: Path, statement: int) -> None:
    connection = connect_writer(path)
    left = statement

    def count_down(*_: object) -> bool:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return True

    connection.exec_trace = count_down
    migrate(connection, STEPS)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
