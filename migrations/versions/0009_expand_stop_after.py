"""The moment after which requests in flight keep an unloading replica from its stop no more.

expand: safe before the code that uses it. NULL, as in rows of older versions, counts the bound from the mark.
"""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE replicas ADD COLUMN stop_after timestamptz")
    op.execute(
        "COMMENT ON COLUMN replicas.stop_after IS "
        "'Of an unloading row: requests in flight are cut from this moment on. NULL counts LOCALAI_UNLOAD_TIMEOUT from "
        "updated_at, infinity never cuts.'"
    )


def downgrade() -> None:
    op.execute("ALTER TABLE replicas DROP COLUMN stop_after")
