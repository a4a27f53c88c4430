"""Which nodes have an agent that does not claim and report its operations, and which work was sent to one.

expand: safe before the code that uses it.
"""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

UP = """
ALTER TABLE nodes ADD COLUMN reports_operations boolean NOT NULL DEFAULT true;
COMMENT ON COLUMN nodes.reports_operations IS
    'Said by the registration. A legacy node claims, reports and confirms nothing.';
ALTER TABLE jobs ADD COLUMN legacy boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN jobs.legacy IS 'Sent to a legacy node and not claimed: it may run, and only time ends its stop.';
"""

DOWN = """
ALTER TABLE jobs DROP COLUMN legacy;
ALTER TABLE nodes DROP COLUMN reports_operations;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
