"""The name that people gave a frontend.

expand: safe before the code that uses it.
"""

from __future__ import annotations

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE frontends ADD COLUMN instance_id text NOT NULL DEFAULT ''")
    op.execute("COMMENT ON COLUMN frontends.instance_id IS 'LOCALAI_INSTANCE_ID; nothing is decided by it.'")


def downgrade() -> None:
    op.execute("ALTER TABLE frontends DROP COLUMN instance_id")
