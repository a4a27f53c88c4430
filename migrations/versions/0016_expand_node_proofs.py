"""Credentials of a node that newer registrations ended.

expand: safe before the code that uses it.
"""

from __future__ import annotations

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

UP = """
ALTER TABLE nodes ADD COLUMN replaced_credentials text[] NOT NULL DEFAULT '{}';
COMMENT ON COLUMN nodes.replaced_credentials IS
    'SHA-256 of the credentials before this one, the newest first; their agents learn that they were replaced.';
"""

DOWN = """
ALTER TABLE nodes DROP COLUMN replaced_credentials;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
