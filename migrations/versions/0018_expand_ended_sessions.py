"""Sessions of the pages that a person ended.

expand: safe before the code that uses it.
"""

from __future__ import annotations

from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE ended_sessions (
            digest text PRIMARY KEY,
            ends_at timestamptz NOT NULL
        )
        """
    )
    op.execute("COMMENT ON TABLE ended_sessions IS 'Sessions of the pages that a person ended before their time.'")
    op.execute("COMMENT ON COLUMN ended_sessions.digest IS 'SHA-256 of the value of the cookie.'")


def downgrade() -> None:
    op.execute("DROP TABLE ended_sessions")
