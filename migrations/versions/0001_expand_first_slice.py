"""Nodes, replicas, jobs and their events, frontends, periodic work, routing version.

expand: safe before the code that uses it.
"""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

UP = """
CREATE TABLE subjects (
    kind            text   NOT NULL,
    name            text   NOT NULL,
    last_generation bigint NOT NULL DEFAULT 0,
    revision        text,
    revision_seq    bigint NOT NULL DEFAULT 0,
    revision_at     timestamptz,
    PRIMARY KEY (kind, name)
);
COMMENT ON TABLE subjects IS
    'What jobs are about. The row that claim, place, finish and edit lock; owns the generation counter.';

CREATE TABLE nodes (
    id                      uuid PRIMARY KEY,
    name                    text NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 255),
    node_type               text NOT NULL DEFAULT 'backend' CHECK (node_type IN ('backend', 'agent')),
    status                  text NOT NULL CHECK (status IN ('pending', 'healthy', 'unhealthy', 'offline', 'draining')),
    status_at               timestamptz NOT NULL DEFAULT clock_timestamp(),
    approved                boolean NOT NULL DEFAULT false,
    address                 text,
    http_address            text,
    incarnation             bigint NOT NULL DEFAULT 0,
    report_seq              bigint NOT NULL DEFAULT 0,
    credential_hash         text,
    version                 text,
    total_vram              bigint, available_vram bigint,
    total_ram               bigint, available_ram  bigint,
    total_disk              bigint, available_disk bigint,
    gpu_vendor              text, gpu_compute_capability text, capability text,
    cpu_logical_cores       integer, cpu_usage_percent double precision, cpu_load_1 double precision,
    labels                  jsonb NOT NULL DEFAULT '{}',
    max_replicas_per_model  integer NOT NULL DEFAULT 1 CHECK (max_replicas_per_model >= 1),
    max_replicas_set_by_admin boolean NOT NULL DEFAULT false,
    last_heartbeat          timestamptz,
    created_at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT only_approved_nodes_serve CHECK (approved OR status IN ('pending', 'offline'))
);
COMMENT ON COLUMN nodes.incarnation IS 'Number of the agent''s life that speaks for this node; registration draws one.';
COMMENT ON COLUMN nodes.report_seq IS 'Highest report of this incarnation that changed a row; a lower one is late.';
COMMENT ON COLUMN nodes.status_at IS 'A node that went offline comes back only by a heartbeat younger than this.';

CREATE TABLE jobs (
    id                  uuid PRIMARY KEY,
    kind                text   NOT NULL,
    subject             text   NOT NULL,
    slot                integer NOT NULL DEFAULT 0 CHECK (slot >= 0),
    parent_id           uuid REFERENCES jobs (id) ON DELETE SET NULL,
    generation          bigint NOT NULL,
    state               text   NOT NULL CHECK (state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')),
    phase               text   NOT NULL DEFAULT 'pending',
    args                jsonb  NOT NULL DEFAULT '{}',
    revision            text,
    owner               text,
    lease_expires_at    timestamptz,
    attempts            integer NOT NULL DEFAULT 0,
    adoptions           integer NOT NULL DEFAULT 0,
    -- dispatch of the wake-up, or of the order to the node
    dispatch_window_s   double precision,
    dispatch_expires_at timestamptz,
    -- the operation on the node
    node_id             uuid REFERENCES nodes (id) ON DELETE SET NULL,
    op_generation       bigint,
    node_incarnation    bigint,
    op_state            text CHECK (op_state IN ('sent', 'claimed', 'ready', 'ended')),
    op_seen_at          timestamptz,
    op_claim_seq        bigint,
    op_missing          integer NOT NULL DEFAULT 0,
    op_error            jsonb,
    placed_at           timestamptz,
    process_instance    uuid,
    address             text,
    identity            text,
    -- progress
    progress            bigint NOT NULL DEFAULT 0,
    bytes_done          bigint NOT NULL DEFAULT 0,
    bytes_total         bigint NOT NULL DEFAULT 0,
    file_index          integer NOT NULL DEFAULT 0,
    files_total         integer NOT NULL DEFAULT 0,
    message             text,
    phase_started_at    timestamptz,
    progress_at         timestamptz,
    -- cancel, stop and hold
    cancel_requested_at timestamptz,
    stop_state          text NOT NULL DEFAULT 'none' CHECK (stop_state IN ('none', 'pending', 'confirmed')),
    stop_deadline       timestamptz,
    stop_attempts       integer NOT NULL DEFAULT 0,
    stop_next_at        timestamptz,
    hold_until          timestamptz,
    error_cause         text,
    error               text,
    error_detail        jsonb,
    created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at          timestamptz,
    finished_at         timestamptz,
    updated_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT live_has_owner CHECK ((state = 'running') = (owner IS NOT NULL AND lease_expires_at IS NOT NULL)),
    CONSTRAINT terminal_has_end CHECK ((state IN ('succeeded', 'failed', 'cancelled')) = (finished_at IS NOT NULL)),
    CONSTRAINT pending_stop_has_operation CHECK (stop_state <> 'pending' OR op_generation IS NOT NULL),
    CONSTRAINT failed_has_cause CHECK (state <> 'failed' OR error_cause IS NOT NULL)
);
COMMENT ON COLUMN jobs.generation IS 'Fencing number of the owner; adoption draws the next one.';
COMMENT ON COLUMN jobs.op_generation IS 'Generation under which the order was sent to the node; never changes.';
COMMENT ON COLUMN jobs.op_claim_seq IS 'Only a younger report can prove that the operation is gone.';
COMMENT ON COLUMN jobs.op_error IS 'The agent''s last word on the operation; the owner makes it the error of the job.';
COMMENT ON COLUMN jobs.stop_state IS 'pending ends with proof, not with the hold.';

CREATE UNIQUE INDEX jobs_one_live ON jobs (kind, subject, slot) WHERE state IN ('queued', 'running');
CREATE INDEX jobs_subject ON jobs (kind, subject, generation DESC);
CREATE INDEX jobs_dispatch ON jobs (dispatch_expires_at) WHERE dispatch_expires_at IS NOT NULL;
CREATE INDEX jobs_lease ON jobs (lease_expires_at) WHERE state = 'running';
CREATE INDEX jobs_owner ON jobs (owner) WHERE state = 'running';
CREATE INDEX jobs_pending_stop ON jobs (stop_next_at) WHERE stop_state = 'pending';
CREATE INDEX jobs_ended ON jobs (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX jobs_node ON jobs (node_id) WHERE state IN ('queued', 'running') OR stop_state = 'pending';
CREATE INDEX jobs_created ON jobs (created_at DESC, id DESC);
CREATE INDEX jobs_parent ON jobs (parent_id) WHERE parent_id IS NOT NULL;

CREATE TABLE job_events (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id        uuid NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    event         text NOT NULL,
    state         text NOT NULL,
    phase         text,
    generation    bigint NOT NULL,
    op_generation bigint,
    actor         text,
    node_id       uuid,
    detail        jsonb
);
CREATE INDEX job_events_job ON job_events (job_id, id);
CREATE UNIQUE INDEX job_events_one_end ON job_events (job_id) WHERE event IN ('succeeded', 'failed', 'cancelled');

CREATE TABLE replicas (
    id               uuid PRIMARY KEY,
    model            text NOT NULL,
    slot             integer NOT NULL,
    node_id          uuid NOT NULL REFERENCES nodes (id) ON DELETE CASCADE,
    node_incarnation bigint,
    job_id           uuid NOT NULL REFERENCES jobs (id),
    op_generation    bigint NOT NULL,
    process_instance uuid,
    address          text,
    identity         text,
    backend          text NOT NULL,
    revision         text NOT NULL,
    state            text NOT NULL CHECK (state IN ('staging', 'loading', 'loaded', 'unloading')),
    reserved_bytes   bigint NOT NULL DEFAULT 0,
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT one_row_per_slot UNIQUE (model, slot),
    CONSTRAINT loaded_has_process CHECK (
        state <> 'loaded'
        OR (address IS NOT NULL AND process_instance IS NOT NULL AND node_incarnation IS NOT NULL
            AND identity IS NOT NULL)
    )
);
COMMENT ON COLUMN replicas.identity IS 'The very Model string LoadModel got; sent with every call.';
COMMENT ON COLUMN replicas.reserved_bytes IS 'Memory set aside on the node until the row goes.';
CREATE INDEX replicas_node ON replicas (node_id);
CREATE INDEX replicas_job ON replicas (job_id);

CREATE TABLE frontends (
    id               uuid PRIMARY KEY,
    host             text NOT NULL,
    pid              integer NOT NULL,
    url              text,
    started_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    lease_expires_at timestamptz NOT NULL,
    ended_at         timestamptz
);
CREATE INDEX frontends_lease ON frontends (lease_expires_at) WHERE ended_at IS NULL;

CREATE TABLE periodic (
    name       text PRIMARY KEY,
    interval_s double precision NOT NULL CHECK (interval_s > 0),
    next_run   timestamptz NOT NULL,
    last_run   timestamptz
);

CREATE TABLE routing_version (
    id smallint PRIMARY KEY DEFAULT 1 CHECK (id = 1),
    v  bigint   NOT NULL
);
INSERT INTO routing_version (id, v) VALUES (1, 1);
"""

DOWN = """
DROP TABLE routing_version, periodic, frontends, replicas, job_events, jobs, nodes, subjects;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
