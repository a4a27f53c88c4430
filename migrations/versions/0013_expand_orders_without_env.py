"""Orders of jobs that have ended keep no value of a model's env.

expand: the column stays as it is.
"""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        "UPDATE jobs SET args = jsonb_set(args, '{order,env}', '{}') "
        "WHERE finished_at IS NOT NULL AND args->'order'->'env' <> '{}'::jsonb"
    )


def downgrade() -> None:
    """The values are gone, and nothing reads them."""
