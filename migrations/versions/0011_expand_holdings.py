"""What nodes report to hold: files with their digests, and memory of model processes.

expand: safe before the code that uses it.
"""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE nodes ADD COLUMN staged_files jsonb, ADD COLUMN process_memory jsonb")
    op.execute(
        "COMMENT ON COLUMN nodes.staged_files IS "
        "'Model files on the disk of the node, as of the free disk of the same row; NULL: its agent does not report.'"
    )
    op.execute(
        "COMMENT ON COLUMN nodes.process_memory IS "
        "'Resident bytes by process instance, as of the free memory of the same row; NULL: its agent does not report.'"
    )
    op.execute("ALTER TABLE replicas ADD COLUMN loaded_at timestamptz")
    op.execute("UPDATE replicas SET loaded_at = updated_at WHERE state = 'loaded'")


def downgrade() -> None:
    op.execute("ALTER TABLE replicas DROP COLUMN loaded_at")
    op.execute("ALTER TABLE nodes DROP COLUMN staged_files, DROP COLUMN process_memory")
