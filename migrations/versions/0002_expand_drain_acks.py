"""What each web process says about a replica that is being taken away.

expand: safe before the code that uses it.
"""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

UP = """
CREATE TABLE drain_acks (
    replica_id  uuid NOT NULL REFERENCES replicas (id) ON DELETE CASCADE,
    frontend_id uuid NOT NULL REFERENCES frontends (id) ON DELETE CASCADE,
    in_flight   integer NOT NULL CHECK (in_flight >= 0),
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (replica_id, frontend_id)
);
COMMENT ON TABLE drain_acks IS
    'A web process routes no more to this unloading replica, and has so many requests with it. A stop waits for 0.';
CREATE INDEX drain_acks_frontend ON drain_acks (frontend_id);
CREATE INDEX replicas_unloading ON replicas (id) WHERE state = 'unloading';
"""

DOWN = """
DROP INDEX replicas_unloading;
DROP TABLE drain_acks;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
