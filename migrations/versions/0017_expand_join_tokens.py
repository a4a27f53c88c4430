"""Tokens with which one named worker joins.

expand: safe before the code that uses it.
"""

from __future__ import annotations

from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

UP = """
CREATE TABLE join_tokens (
    id          uuid PRIMARY KEY,
    token_hash  text NOT NULL UNIQUE,
    node_name   text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at  timestamptz NOT NULL,
    used_at     timestamptz,
    secret_hash text,
    node_id     uuid REFERENCES nodes (id) ON DELETE CASCADE
);
CREATE INDEX join_tokens_by_node ON join_tokens (node_id);
COMMENT ON TABLE join_tokens IS 'One-time tokens of administrators for workers that join.';
COMMENT ON COLUMN join_tokens.token_hash IS 'SHA-256; the token itself is shown once and kept nowhere.';
COMMENT ON COLUMN join_tokens.expires_at IS 'Until when it may be used first.';
COMMENT ON COLUMN join_tokens.secret_hash IS
    'SHA-256 of the secret of the worker that used it first; no other one may use it afterwards.';
"""

DOWN = """
DROP TABLE join_tokens;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
