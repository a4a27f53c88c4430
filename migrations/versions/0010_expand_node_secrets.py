"""The secret by which a worker proves that a node name is its own, and registrations that were refused.

expand: safe before the code that uses it.
"""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

UP = """
ALTER TABLE nodes
    ADD COLUMN secret_hash text,
    ADD COLUMN moved_incarnation bigint NOT NULL DEFAULT 0,
    ADD COLUMN contested_at timestamptz,
    ADD COLUMN refused_registration jsonb,
    ADD COLUMN pending_reason text;
COMMENT ON COLUMN nodes.secret_hash IS
    'SHA-256 of the secret in the worker''s data folder; NULL until a registration brings one.';
COMMENT ON COLUMN nodes.moved_incarnation IS 'The incarnation with which the address last changed; 0 for none.';
COMMENT ON COLUMN nodes.contested_at IS
    'When an incarnation below moved_incarnation was heard of: two workers have the secret.';
COMMENT ON COLUMN nodes.refused_registration IS 'The last refused registration: at, address, http_address, reason.';
COMMENT ON COLUMN nodes.pending_reason IS 'Why a node that was approved before waits for approval again.';
"""

DOWN = """
ALTER TABLE nodes
    DROP COLUMN secret_hash, DROP COLUMN moved_incarnation, DROP COLUMN contested_at,
    DROP COLUMN refused_registration, DROP COLUMN pending_reason;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
