"""Failures in a row of one revision of a model on one node: what keeps further attempts away from it.

expand: safe before the code that uses it.
"""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

UP = """
CREATE TABLE failure_streaks (
    model    text NOT NULL,
    revision text NOT NULL,
    node_id  uuid NOT NULL,
    cause    text NOT NULL,
    failures integer NOT NULL CHECK (failures >= 1),
    since    timestamptz NOT NULL,
    last_at  timestamptz NOT NULL,
    error    text NOT NULL,
    job_id   uuid NOT NULL,
    PRIMARY KEY (model, revision, node_id)
);
COMMENT ON TABLE failure_streaks IS
    'Failures in a row with one cause. LOCALAI_QUARANTINE_AFTER of them keep that revision of the model off the node.';
COMMENT ON COLUMN failure_streaks.node_id IS
    'No reference: it would lock the node after the job, and everybody else locks the job after the node.';
COMMENT ON COLUMN failure_streaks.job_id IS 'The last of them. No reference: it outlives the row of its job.';
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute("DROP TABLE failure_streaks")
