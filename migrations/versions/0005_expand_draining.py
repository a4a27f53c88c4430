"""Nodes that are being taken out of use, and the ids of those that were removed.

expand: safe before the code that uses it. A frontend of an older version that registers a draining node would let it
serve: the constraint refuses that, and its agent asks the next frontend.
"""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

UP = """
ALTER TABLE nodes ADD COLUMN draining boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN nodes.draining IS
    'An administrator''s wish. Outlives heartbeats, registrations and silence; status says what the node is now.';
ALTER TABLE nodes ADD CONSTRAINT draining_nodes_take_no_work CHECK (NOT draining OR status <> 'healthy');
CREATE TABLE removed_nodes (
    id         uuid PRIMARY KEY,
    name       text NOT NULL,
    removed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE removed_nodes IS
    'An agent that calls under one of these ids is told to end. One that nobody knows begins again by itself.';
"""

DOWN = """
DROP TABLE removed_nodes;
ALTER TABLE nodes DROP CONSTRAINT draining_nodes_take_no_work;
ALTER TABLE nodes DROP COLUMN draining;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
