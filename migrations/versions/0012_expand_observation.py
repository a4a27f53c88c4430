"""The note that every sweep reads (how long the rows have been observed without a gap), doubted and silent nodes.

expand: safe before the code that uses it.
"""

from __future__ import annotations

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

UP = """
CREATE TABLE observation (
    id         smallint    PRIMARY KEY DEFAULT 1 CHECK (id = 1),
    noted_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    resumed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO observation DEFAULT VALUES;
COMMENT ON TABLE observation IS
    'One row. Silence of nodes and owners is judged only after sweeps have followed each other without a gap.';
COMMENT ON COLUMN observation.noted_at IS 'When a sweep last noted the time.';
COMMENT ON COLUMN observation.resumed_at IS 'Since when the notes follow each other without a gap.';
ALTER TABLE nodes ADD COLUMN doubted_at timestamptz;
COMMENT ON COLUMN nodes.doubted_at IS
    'When a web process reached neither a model process of the node nor its agent; no heartbeat was written since.';
CREATE TABLE silent_nodes (
    node_id uuid        PRIMARY KEY,
    since   timestamptz NOT NULL
);
COMMENT ON TABLE silent_nodes IS 'Nodes that did not take or report an order, and have taken none since.';
COMMENT ON COLUMN silent_nodes.node_id IS
    'No reference: it would lock the node after the job, and everybody else locks the job after the node.';
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute("DROP TABLE silent_nodes")
    op.execute("ALTER TABLE nodes DROP COLUMN doubted_at")
    op.execute("DROP TABLE observation")
