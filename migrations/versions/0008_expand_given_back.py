"""Leases that their owners gave back: going on with such a job is no sign that it kills its owners.

expand: safe before the code that uses it.
"""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE jobs ADD COLUMN given_back boolean NOT NULL DEFAULT false")
    op.execute(
        "COMMENT ON COLUMN jobs.given_back IS 'Its owner ended in good order, and nobody has gone on with it yet.'"
    )


def downgrade() -> None:
    op.execute("ALTER TABLE jobs DROP COLUMN given_back")
