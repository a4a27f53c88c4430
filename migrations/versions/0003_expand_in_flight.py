"""How many requests each web process has with each model process, for people who look.

expand: safe before the code that uses it.
"""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE frontends ADD COLUMN in_flight jsonb NOT NULL DEFAULT '{}'")
    op.execute(
        "COMMENT ON COLUMN frontends.in_flight IS "
        "'Requests by process instance at the last renewal; for people, never for a decision.'"
    )


def downgrade() -> None:
    op.execute("ALTER TABLE frontends DROP COLUMN in_flight")
