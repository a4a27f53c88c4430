-- The moves that only loads make. Locks are taken in the order subject, node, job, replica, routing version.

-- deciding_attempt --
-- What decides about a new attempt: the live one, else the one whose hold lies furthest ahead.
SELECT j.*, n.name AS node_name, clock_timestamp() AS read_at
  FROM jobs j LEFT JOIN nodes n ON n.id = j.node_id
 WHERE j.kind = 'model.load' AND j.subject = %(model)s
   AND (j.state IN ('queued', 'running') OR j.hold_until > clock_timestamp())
 ORDER BY (j.state IN ('queued', 'running')) DESC, j.hold_until DESC NULLS LAST LIMIT 1;

-- serving_job --
-- The load that made a replica which serves this revision now.
SELECT j.*, n.name AS node_name, clock_timestamp() AS read_at
  FROM replicas r JOIN nodes n ON n.id = r.node_id JOIN jobs j ON j.id = r.job_id
 WHERE r.model = %(model)s AND r.revision = %(revision)s AND r.state = 'loaded' AND n.status = 'healthy'
 ORDER BY r.slot LIMIT 1;

-- free_slot --
-- The lowest replica index without a row. A slot whose stop is pending has one, also after the hold.
SELECT min(slot) FROM generate_series(0, (SELECT count(*)::int FROM replicas WHERE model = %(model)s)) AS s (slot)
 WHERE NOT EXISTS (SELECT 1 FROM replicas r WHERE r.model = %(model)s AND r.slot = s.slot);

-- attempt --
-- One attempt as a waiter remembers it.
SELECT j.*, n.name AS node_name, clock_timestamp() AS read_at
  FROM jobs j LEFT JOIN nodes n ON n.id = j.node_id
 WHERE j.id = %(id)s;

-- live_install --
-- The job that brings the model's bytes to this side.
SELECT j.*, clock_timestamp() AS read_at FROM jobs j
 WHERE j.kind = 'model.install' AND j.subject = %(model)s AND j.state IN ('queued', 'running') LIMIT 1;

-- node_offers --
-- Nodes with their replicas. What a node holds is of the same heartbeat as its free memory and disk.
SELECT n.id, n.name, n.status, n.total_vram, n.available_vram, n.total_ram, n.available_ram, n.total_disk,
       n.available_disk, n.max_replicas_per_model, n.staged_files, n.process_memory,
       extract(epoch FROM clock_timestamp() - n.last_heartbeat)::float8 AS heartbeat_age_s,
       (SELECT extract(epoch FROM clock_timestamp() - s.since)::float8 FROM silent_nodes s
         WHERE s.node_id = n.id) AS silent_s,
       (SELECT jsonb_agg(jsonb_build_object(
                   'model', r.model, 'state', r.state, 'reserved_bytes', r.reserved_bytes,
                   'process_instance', coalesce(r.process_instance, j.process_instance),
                   'shown', coalesce(coalesce(r.loaded_at, CASE WHEN r.state = 'loaded' THEN r.updated_at END)
                                     <= n.last_heartbeat, false),
                   'files', CASE WHEN r.state IN ('staging', 'loading') THEN j.args #> '{order,files}' END))
          FROM replicas r JOIN jobs j ON j.id = r.job_id
         WHERE r.node_id = n.id) AS promises
  FROM nodes n
 WHERE n.node_type = 'backend' AND (%(node)s::uuid IS NULL OR n.id = %(node)s)
 ORDER BY n.name;

-- lock_node --
-- Placements on one node come one after the other.
SELECT id FROM nodes WHERE id = %(node)s FOR UPDATE;

-- place_job --
-- The order is sent under the generation of this moment, which names the operation for ever.
UPDATE jobs
   SET node_id = %(node)s, op_generation = generation, op_state = 'sent',
       legacy = NOT (SELECT reports_operations FROM nodes WHERE id = %(node)s), placed_at = clock_timestamp(),
       args = args || jsonb_build_object('order', %(order)s::jsonb), dispatch_window_s = %(dispatch)s,
       dispatch_expires_at = clock_timestamp() + make_interval(secs => %(dispatch)s),
       message = NULL, updated_at = clock_timestamp()
 WHERE id = %(id)s AND generation = %(generation)s AND owner = %(owner)s AND state = 'running'
   AND op_generation IS NULL AND lease_expires_at > clock_timestamp()
RETURNING jobs.*, clock_timestamp() AS read_at;

-- relocate_job --
-- Another node gets an order that was not claimed. A claim of the node before names another operation, and is refused.
UPDATE jobs
   SET node_id = %(node)s, op_generation = %(op_generation)s,
       legacy = NOT (SELECT reports_operations FROM nodes WHERE id = %(node)s), placed_at = clock_timestamp(),
       args = args || jsonb_build_object('order', %(order)s::jsonb), dispatch_window_s = %(dispatch)s,
       dispatch_expires_at = clock_timestamp() + make_interval(secs => %(dispatch)s), updated_at = clock_timestamp()
 WHERE id = %(id)s AND generation = %(generation)s AND owner = %(owner)s AND state = 'running'
   AND lease_expires_at > clock_timestamp() AND op_state = 'sent' AND node_incarnation IS NULL AND NOT legacy
RETURNING jobs.*, clock_timestamp() AS read_at;

-- relocate_replica --
-- The reservation goes along: nothing of the attempt runs on the node before.
UPDATE replicas SET node_id = %(node)s, op_generation = %(op_generation)s, updated_at = clock_timestamp()
 WHERE job_id = %(id)s AND state = 'staging'
RETURNING id;

-- reserve_replica --
-- Slot, memory and disk in one row; it goes with the proof that nothing of the attempt runs.
INSERT INTO replicas (id, model, slot, node_id, job_id, op_generation, backend, revision, state, reserved_bytes)
VALUES (%(id)s, %(model)s, %(slot)s, %(node)s, %(job)s, %(op_generation)s, %(backend)s, %(revision)s, 'staging',
        %(reserved)s)
ON CONFLICT (model, slot) DO NOTHING
RETURNING id;

-- finish_load --
-- All or nothing: state, lease, readiness, revision and incarnation stand in one WHERE.
UPDATE jobs
   SET state = 'succeeded', finished_at = clock_timestamp(), lease_expires_at = NULL, updated_at = clock_timestamp()
 WHERE id = %(id)s AND generation = %(generation)s AND owner = %(owner)s AND state = 'running' AND op_state = 'ready'
   AND lease_expires_at > clock_timestamp() AND revision = %(revision)s AND node_incarnation = %(incarnation)s
RETURNING jobs.*, clock_timestamp() AS read_at;

-- route_replica --
-- From here on requests may reach it.
UPDATE replicas
   SET state = 'loaded', address = %(address)s, process_instance = %(instance)s, identity = %(identity)s,
       node_incarnation = %(incarnation)s, loaded_at = clock_timestamp(), updated_at = clock_timestamp()
 WHERE job_id = %(id)s AND state IN ('staging', 'loading')
RETURNING id;

-- revisions --
-- The revisions in force of some models.
SELECT name, revision FROM subjects
 WHERE kind = 'model' AND name = ANY(%(models)s) AND revision IS NOT NULL;

-- in_force --
-- The revision in force of one model, and whether it serves. Locks the subject.
SELECT s.revision, s.revision_at AS since, clock_timestamp() AS now,
       EXISTS (SELECT 1 FROM replicas r
                WHERE r.model = s.name AND r.revision = s.revision AND r.state = 'loaded') AS serves
  FROM subjects s
 WHERE s.kind = 'model' AND s.name = %(model)s
   FOR UPDATE OF s;

-- set_revision --
-- The revision that may serve from now on; the caller holds the subject.
UPDATE subjects SET revision = %(revision)s, revision_seq = revision_seq + 1, revision_at = clock_timestamp()
 WHERE kind = 'model' AND name = %(model)s AND revision IS DISTINCT FROM %(revision)s
RETURNING revision_seq;

-- outdate_replicas --
-- A replica of another revision never becomes routable again.
UPDATE replicas SET state = 'unloading', updated_at = clock_timestamp()
 WHERE model = %(model)s AND revision <> %(revision)s AND state = 'loaded'
RETURNING id;

-- record_durations --
-- What each phase took, from the moves of the job: each move tells the phase that begins or goes on with it.
WITH spans AS (
    SELECT phase, extract(epoch FROM lead(at) OVER (ORDER BY id) - at) AS seconds
      FROM job_events WHERE job_id = %(id)s
), sums AS (
    SELECT COALESCE(sum(seconds) FILTER (WHERE phase = 'pending'), 0) AS pending,
           COALESCE(sum(seconds) FILTER (WHERE phase = 'installing'), 0) AS installing,
           COALESCE(sum(seconds) FILTER (WHERE phase = 'staging'), 0) AS staging,
           COALESCE(sum(seconds) FILTER (WHERE phase = 'loading'), 0) AS loading
      FROM spans
)
INSERT INTO load_durations (job_id, model, node_class, backend, size_bytes, pending_s, installing_s, staging_s,
                            loading_s)
SELECT %(id)s, %(model)s, n.node_class, %(backend)s, %(size)s, GREATEST(pending, 0), GREATEST(installing, 0),
       GREATEST(staging, 0), GREATEST(loading, 0)
  FROM nodes n, sums
 WHERE n.id = %(node)s
ON CONFLICT (job_id) DO NOTHING
RETURNING node_class;

-- prune_durations --
-- Only the newest loads of a class speak.
DELETE FROM load_durations
 WHERE id IN (SELECT id FROM load_durations WHERE model = %(model)s AND node_class = %(node_class)s
               ORDER BY id DESC OFFSET %(keep)s);

-- known_durations --
-- Finished loads of a model on nodes like this one, the newest first.
SELECT d.pending_s, d.installing_s, d.staging_s, d.loading_s, d.backend, d.size_bytes
  FROM nodes n JOIN load_durations d ON d.node_class = n.node_class
 WHERE n.id = %(node)s AND d.model = %(model)s
 ORDER BY d.id DESC LIMIT %(keep)s;

-- streaks --
-- Failures in a row that are at least so many, on nodes that are still there; a filter that is NULL does not filter.
-- Those of causes that pass by themselves count until the last one is old enough.
SELECT s.model, s.revision, s.node_id, n.name AS node_name, s.cause, s.failures, s.since, s.last_at, s.error, s.job_id
  FROM failure_streaks s JOIN nodes n ON n.id = s.node_id
 WHERE s.failures >= %(least)s
   AND (s.cause <> ALL(%(passing)s::text[])
        OR s.last_at > clock_timestamp() - make_interval(secs => %(silent_hold)s))
   AND (%(model)s::text IS NULL OR s.model = %(model)s)
   AND (%(revision)s::text IS NULL OR s.revision = %(revision)s)
   AND (%(node)s::uuid IS NULL OR s.node_id = %(node)s)
 ORDER BY s.model, n.name;

-- serving_nodes --
-- Nodes that a load may be placed on as far as their status goes.
SELECT id FROM nodes WHERE node_type = 'backend' AND status = 'healthy';

-- forget_streak --
-- A load of this revision has succeeded there.
DELETE FROM failure_streaks WHERE model = %(model)s AND revision = %(revision)s AND node_id = %(node)s;

-- outdate_streaks --
-- Another config is another try.
WITH outdated AS (
    SELECT model, revision, node_id FROM failure_streaks
     WHERE model = %(model)s AND revision <> %(revision)s
     ORDER BY model, revision, node_id FOR UPDATE
)
DELETE FROM failure_streaks s USING outdated o
 WHERE (s.model, s.revision, s.node_id) = (o.model, o.revision, o.node_id);

-- lift_streaks --
-- Somebody asks for a retry. Rows of nodes that were removed go too.
WITH lifted AS (
    SELECT model, revision, node_id FROM failure_streaks
     WHERE model = %(model)s
     ORDER BY model, revision, node_id FOR UPDATE
)
DELETE FROM failure_streaks s USING lifted l
 WHERE (s.model, s.revision, s.node_id) = (l.model, l.revision, l.node_id)
RETURNING s.node_id, s.failures;
