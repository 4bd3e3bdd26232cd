"""The tables of a ledger, step by step. A step that was released never changes; new ones are added at the end."""

from typing import NamedTuple


class Migration(NamedTuple):
    """A step: its number, what it is for, and its statements, with {words} where SQLite and PostgreSQL differ."""

    number: int
    name: str
    statements: tuple[str, ...]


HISTORY = """
CREATE TABLE IF NOT EXISTS migrations (
    number BIGINT PRIMARY KEY,
    name TEXT NOT NULL,
    applied BIGINT NOT NULL
)
"""

MIGRATIONS = (
    Migration(
        1,
        "experiments, events, snapshots, keys",
        (
            """
            CREATE TABLE experiments (
                key BIGINT PRIMARY KEY,
                name TEXT NOT NULL UNIQUE,
                settings TEXT NOT NULL,
                status SMALLINT NOT NULL,
                created BIGINT NOT NULL,
                position BIGINT NOT NULL,
                rounds BIGINT NOT NULL,
                snapshot BIGINT NOT NULL
            )
            """,
            """
            CREATE TABLE events (
                experiment BIGINT NOT NULL,
                number BIGINT NOT NULL,
                kind SMALLINT NOT NULL,
                at BIGINT NOT NULL,
                round BIGINT,
                id TEXT,
                arm INTEGER,
                propensity DOUBLE PRECISION,
                loss DOUBLE PRECISION,
                fate SMALLINT,
                waited BIGINT,
                PRIMARY KEY (experiment, number)
            ) {clustered}
            """,
            "CREATE UNIQUE INDEX decisions_by_id ON events (experiment, id) WHERE kind = 1",
            "CREATE UNIQUE INDEX outcomes_by_round ON events (experiment, round) WHERE kind = 2",
            "CREATE UNIQUE INDEX defaults_by_round ON events (experiment, round) WHERE kind = 3",
            """
            CREATE TABLE snapshots (
                experiment BIGINT NOT NULL,
                position BIGINT NOT NULL,
                state {bytes} NOT NULL,
                PRIMARY KEY (experiment, position)
            )
            """,
            """
            CREATE TABLE keys (
                id TEXT PRIMARY KEY,
                name TEXT NOT NULL,
                role TEXT NOT NULL,
                digest {bytes} NOT NULL,
                created BIGINT NOT NULL,
                revoked BIGINT
            )
            """,
        ),
    ),
    Migration(
        2,
        "forget snapshots of earlier versions: states are made again from the events, with arms by number",
        ("DELETE FROM snapshots", "UPDATE experiments SET snapshot = 0"),
    ),
    Migration(
        3,
        "forget snapshots of earlier versions: states are made again from the events, with the longest delay",
        ("DELETE FROM snapshots", "UPDATE experiments SET snapshot = 0"),
    ),
    Migration(
        4,
        "outcomes that are held until the deadline",
        ("CREATE UNIQUE INDEX settled_by_round ON events (experiment, round) WHERE kind = 7",),
    ),
    Migration(
        5,
        "decisions keep what the learner wants back with their outcomes; who asked; keys with limits; a place to probe",
        (
            "ALTER TABLE events ADD COLUMN mark DOUBLE PRECISION",
            "ALTER TABLE events ADD COLUMN cumulative BIGINT",
            "ALTER TABLE events ADD COLUMN key INTEGER",
            "ALTER TABLE keys ADD COLUMN number INTEGER",
            "ALTER TABLE keys ADD COLUMN experiments TEXT",
            "ALTER TABLE keys ADD COLUMN expires BIGINT",
            "ALTER TABLE keys ADD COLUMN used BIGINT",
            "ALTER TABLE keys ADD COLUMN rate DOUBLE PRECISION",
            """
            UPDATE keys SET number = (
                SELECT count(*) FROM keys AS k
                WHERE k.created < keys.created OR (k.created = keys.created AND k.id <= keys.id)
            )
            """,
            "CREATE UNIQUE INDEX keys_by_number ON keys (number)",
            "CREATE TABLE probes (number INTEGER PRIMARY KEY, at BIGINT NOT NULL, filler {bytes} NOT NULL)",
            "DELETE FROM snapshots",
            "UPDATE experiments SET snapshot = 0",
        ),
    ),
    Migration(
        6,
        "what was erased",
        (
            """
            CREATE TABLE erasures (
                at BIGINT NOT NULL,
                experiment BIGINT NOT NULL,
                ids BIGINT NOT NULL,
                what TEXT NOT NULL,
                key INTEGER,
                through BIGINT,
                PRIMARY KEY (experiment, at)
            )
            """,
        ),
    ),
    Migration(
        7,
        "values in units, several reports of a decision, arms that come and go, limits",
        (
            "ALTER TABLE events ADD COLUMN value DOUBLE PRECISION",
            "ALTER TABLE events ADD COLUMN total DOUBLE PRECISION",
            "ALTER TABLE events ADD COLUMN report TEXT",
            "ALTER TABLE events ADD COLUMN detail TEXT",
            "ALTER TABLE experiments ADD COLUMN arms INTEGER",
            "CREATE UNIQUE INDEX reports_by_round ON events (experiment, round, number) WHERE kind = 8",
            "CREATE UNIQUE INDEX reports_by_id ON events (experiment, round, report) WHERE kind = 8",
            "CREATE UNIQUE INDEX fallbacks_by_id ON events (experiment, id) WHERE kind = 13",
            "CREATE UNIQUE INDEX changes_by_number ON events (experiment, number) WHERE kind > 8",
            "DELETE FROM snapshots",
            "UPDATE experiments SET snapshot = 0",
        ),
    ),
    Migration(
        8,
        "what settled decisions amount to as far as they were read, changes of status by number; forget snapshots",
        (
            "CREATE TABLE settled (experiment BIGINT PRIMARY KEY, position BIGINT NOT NULL, state {bytes} NOT NULL)",
            "CREATE UNIQUE INDEX statuses_by_number ON events (experiment, number) WHERE kind > 3 AND kind < 7",
            "DELETE FROM snapshots",
            "UPDATE experiments SET snapshot = 0",
        ),
    ),
)
