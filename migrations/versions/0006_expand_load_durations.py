"""How long the phases of finished loads took, and the class of a node that makes them comparable.

expand: safe before the code that uses it.
"""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

UP = """
ALTER TABLE nodes ADD COLUMN node_class text NOT NULL GENERATED ALWAYS AS (
    CASE
        WHEN COALESCE(total_vram, 0) > 0 THEN
            'gpu ' || COALESCE(NULLIF(gpu_vendor, ''), 'unknown')
                   || COALESCE(' ' || NULLIF(gpu_compute_capability, ''), '')
        WHEN cpu_logical_cores > 64 THEN 'cpu 65 and more cores'
        WHEN cpu_logical_cores > 32 THEN 'cpu 33-64 cores'
        WHEN cpu_logical_cores > 16 THEN 'cpu 17-32 cores'
        WHEN cpu_logical_cores > 8 THEN 'cpu 9-16 cores'
        WHEN cpu_logical_cores > 4 THEN 'cpu 5-8 cores'
        WHEN cpu_logical_cores > 2 THEN 'cpu 3-4 cores'
        WHEN cpu_logical_cores > 0 THEN 'cpu 1-2 cores'
        ELSE 'cpu unknown'
    END) STORED;
COMMENT ON COLUMN nodes.node_class IS 'Nodes of one class load one model in about the same time.';

CREATE TABLE load_durations (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id       uuid NOT NULL UNIQUE,
    model        text NOT NULL,
    node_class   text NOT NULL,
    backend      text NOT NULL,
    size_bytes   bigint NOT NULL CHECK (size_bytes >= 0),
    pending_s    double precision NOT NULL CHECK (pending_s >= 0),
    installing_s double precision NOT NULL CHECK (installing_s >= 0),
    staging_s    double precision NOT NULL CHECK (staging_s >= 0),
    loading_s    double precision NOT NULL CHECK (loading_s >= 0)
);
COMMENT ON TABLE load_durations IS
    'What each phase of a load took, written in the transaction in which it succeeded; the last few of each class.';
COMMENT ON COLUMN load_durations.job_id IS 'No reference: it outlives the row of its job, which is pruned.';
CREATE INDEX load_durations_newest ON load_durations (model, node_class, id DESC);
"""

DOWN = """
DROP TABLE load_durations;
ALTER TABLE nodes DROP COLUMN node_class;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
