"""The secret of a replica's process.

expand: safe before the code that uses it.
"""

from __future__ import annotations

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE replicas ADD COLUMN process_secret text")
    op.execute(
        "COMMENT ON COLUMN replicas.process_secret IS "
        "'Sent with each call to the process; NULL if the process has none. No API and no log shows it.'"
    )


def downgrade() -> None:
    op.execute("ALTER TABLE replicas DROP COLUMN process_secret")
