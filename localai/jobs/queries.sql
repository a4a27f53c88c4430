-- Every contended statement of the job engine. All guards stand in the WHERE; a statement that touches no row means
-- that somebody else was faster. Times are clock_timestamp(): the start of a transaction says nothing about a lease.
-- Locks are taken in the order subject, node, job, replica, routing version.

-- read_job --
-- One job as it is committed, with the name of its node.
SELECT j.*, n.name AS node_name, clock_timestamp() AS read_at
  FROM jobs j LEFT JOIN nodes n ON n.id = j.node_id
 WHERE j.id = %(id)s;

-- live_job --
-- The live attempt of a subject.
SELECT j.*, n.name AS node_name, clock_timestamp() AS read_at
  FROM jobs j LEFT JOIN nodes n ON n.id = j.node_id
 WHERE j.kind = %(kind)s AND j.subject = %(subject)s AND j.state IN ('queued', 'running')
 ORDER BY j.slot LIMIT 1;

-- list_jobs --
-- Newest first; a filter that is NULL does not filter.
SELECT j.*, n.name AS node_name, clock_timestamp() AS read_at
  FROM jobs j LEFT JOIN nodes n ON n.id = j.node_id
 WHERE (%(state)s::text IS NULL OR j.state = %(state)s)
   AND (%(kind)s::text IS NULL OR j.kind = %(kind)s)
   AND (%(subject)s::text IS NULL OR j.subject = %(subject)s)
   AND (%(node)s::uuid IS NULL OR j.node_id = %(node)s)
   AND (%(parent)s::uuid IS NULL OR j.parent_id = %(parent)s)
   AND (%(before_at)s::timestamptz IS NULL OR (j.created_at, j.id) < (%(before_at)s, %(before_id)s::uuid))
 ORDER BY j.created_at DESC, j.id DESC
 LIMIT %(limit)s;

-- owned_jobs --
-- What the rows say this owner runs, also where the answer to its take was lost.
SELECT j.*, n.name AS node_name, clock_timestamp() AS read_at
  FROM jobs j LEFT JOIN nodes n ON n.id = j.node_id
 WHERE j.owner = %(owner)s AND j.state = 'running'
 ORDER BY j.id;

-- list_events --
-- Accepted moves of one job after a known one.
SELECT id, job_id, at, event, state, phase, generation, op_generation, actor, node_id, detail
  FROM job_events
 WHERE job_id = %(id)s AND id > %(after)s
 ORDER BY id LIMIT 1000;

-- record_event --
-- One accepted move, in the transaction of the move.
INSERT INTO job_events (job_id, event, state, phase, generation, op_generation, actor, node_id, detail)
VALUES (%(id)s, %(event)s, %(state)s, %(phase)s, %(generation)s, %(op_generation)s, %(actor)s, %(node_id)s,
        %(detail)s::jsonb);

-- lock_subject --
-- Whoever holds this row is alone in claiming, placing, finishing or editing the subject.
SELECT last_generation, revision FROM subjects WHERE kind = %(subject_kind)s AND name = %(subject)s FOR UPDATE;

-- insert_subject --
-- The first time anything is about it.
INSERT INTO subjects (kind, name) VALUES (%(subject_kind)s, %(subject)s) ON CONFLICT DO NOTHING;

-- draw_generation --
-- The next fencing number of a subject; never used twice.
UPDATE subjects SET last_generation = last_generation + 1
 WHERE kind = %(subject_kind)s AND name = %(subject)s
RETURNING last_generation;

-- newest_attempt --
-- The attempt that decides whether another may begin.
SELECT j.*, n.name AS node_name, clock_timestamp() AS read_at
  FROM jobs j LEFT JOIN nodes n ON n.id = j.node_id
 WHERE j.kind = %(kind)s AND j.subject = %(subject)s AND j.slot = %(slot)s
 ORDER BY j.generation DESC LIMIT 1;

-- hold_job --
-- A job that stays as it is until the commit: neither ends it meanwhile nor does its owner move it.
SELECT jobs.*, clock_timestamp() AS read_at FROM jobs WHERE id = %(id)s FOR SHARE;

-- insert_job --
-- A new attempt, waiting for an owner.
INSERT INTO jobs (id, kind, subject, slot, parent_id, generation, state, args, revision, node_id,
                  dispatch_window_s, dispatch_expires_at)
VALUES (%(id)s, %(kind)s, %(subject)s, %(slot)s, %(parent_id)s, %(generation)s, 'queued', %(args)s::jsonb,
        %(revision)s, %(node_id)s, %(dispatch)s, clock_timestamp() + make_interval(secs => %(dispatch)s))
RETURNING jobs.*, clock_timestamp() AS read_at;

-- take_job --
-- A queued job gets its owner; one of many takers wins.
UPDATE jobs
   SET state = 'running', owner = %(owner)s, attempts = attempts + 1,
       lease_expires_at = clock_timestamp() + make_interval(secs => %(lease)s),
       started_at = COALESCE(started_at, clock_timestamp()), phase_started_at = clock_timestamp(),
       dispatch_window_s = NULL, dispatch_expires_at = NULL, updated_at = clock_timestamp()
 WHERE id = %(id)s AND generation = %(generation)s AND state = 'queued'
RETURNING jobs.*, clock_timestamp() AS read_at;

-- renew_jobs --
-- All leases of one owner in one statement. A row that somebody holds at this moment is left for the next round, so
-- that a frozen transaction on one job costs no other job its lease. `renewed` false with a valid lease means just that.
WITH held AS (
    SELECT * FROM unnest(%(ids)s::uuid[], %(generations)s::bigint[]) AS h (id, generation)
), mine AS (
    SELECT j.id FROM jobs j JOIN held h ON h.id = j.id AND h.generation = j.generation
     WHERE j.owner = %(owner)s AND j.state = 'running'
     ORDER BY j.id FOR UPDATE OF j SKIP LOCKED
), renewed AS (
    UPDATE jobs j SET lease_expires_at = clock_timestamp() + make_interval(secs => %(lease)s)
      FROM mine
     WHERE j.id = mine.id AND j.owner = %(owner)s AND j.state = 'running' AND j.lease_expires_at > clock_timestamp()
    RETURNING j.id
)
SELECT j.id, r.id IS NOT NULL AS renewed
  FROM jobs j JOIN held h ON h.id = j.id AND h.generation = j.generation LEFT JOIN renewed r ON r.id = j.id
 WHERE j.owner = %(owner)s AND j.state = 'running' AND j.lease_expires_at > clock_timestamp();

-- progress_job --
-- Work that the owner does itself moved.
UPDATE jobs
   SET progress = progress + 1, progress_at = clock_timestamp(), bytes_done = %(bytes_done)s,
       bytes_total = %(bytes_total)s, file_index = %(file_index)s, files_total = %(files_total)s,
       message = %(message)s, updated_at = clock_timestamp()
 WHERE id = %(id)s AND generation = %(generation)s AND owner = %(owner)s AND state = 'running'
   AND lease_expires_at > clock_timestamp()
RETURNING jobs.*, clock_timestamp() AS read_at;

-- finish_job --
-- Success of work that the owner did itself.
UPDATE jobs
   SET state = 'succeeded', finished_at = clock_timestamp(), lease_expires_at = NULL, updated_at = clock_timestamp()
 WHERE id = %(id)s AND generation = %(generation)s AND owner = %(owner)s AND state = 'running'
   AND op_generation IS NULL AND lease_expires_at > clock_timestamp()
RETURNING jobs.*, clock_timestamp() AS read_at;

-- end_job --
-- The one statement behind fail, lapse, cancel and a new incarnation; they differ in the guard only.
-- Confirmed at once where it is a fact that nothing runs: said so, never sent, never claimed, or reported as ended. A
-- legacy node does not claim: what was sent to it may run, is stopped by its address only, and is given up by time only.
UPDATE jobs
   SET state = %(to)s, error_cause = %(cause)s, error = %(error)s, error_detail = %(detail)s::jsonb,
       finished_at = clock_timestamp(), lease_expires_at = NULL, updated_at = clock_timestamp(),
       dispatch_window_s = NULL, dispatch_expires_at = NULL,
       cancel_requested_at = CASE WHEN %(guard)s = 'cancel' THEN clock_timestamp() ELSE cancel_requested_at END,
       stop_state = CASE WHEN %(ended)s OR op_generation IS NULL OR (node_incarnation IS NULL AND NOT legacy)
                           OR op_state = 'ended' THEN 'confirmed' ELSE 'pending' END,
       stop_next_at = CASE WHEN %(ended)s OR op_generation IS NULL OR (node_incarnation IS NULL AND NOT legacy)
                             OR op_state = 'ended' OR (legacy AND address IS NULL) THEN NULL
                           ELSE clock_timestamp() END,
       stop_deadline = clock_timestamp()
           + make_interval(secs => CASE WHEN legacy THEN %(legacy_window)s ELSE %(stop_window)s END),
       hold_until = clock_timestamp() + make_interval(secs =>
           CASE WHEN %(ended)s OR op_generation IS NULL OR (node_incarnation IS NULL AND NOT legacy)
                  OR op_state = 'ended' THEN %(report_window)s
                WHEN legacy THEN %(legacy_window)s ELSE %(stop_window)s END)
 WHERE id = %(id)s AND (
       (%(guard)s = 'owner' AND generation = %(generation)s AND owner = %(owner)s AND state = 'running')
    OR (%(guard)s = 'lapse' AND generation = %(generation)s AND state = 'running'
        AND lease_expires_at <= clock_timestamp())
    OR (%(guard)s = 'incarnation' AND node_id = %(node)s AND node_incarnation < %(incarnation)s AND state = 'running')
    OR (%(guard)s = 'cancel' AND state IN ('queued', 'running')))
RETURNING jobs.*, clock_timestamp() AS read_at;

-- lock_live --
-- A live job, held until the commit. By itself and first: what begins to serve it meanwhile is seen by the next statement.
SELECT id FROM jobs WHERE id = %(id)s AND state IN ('queued', 'running') FOR UPDATE;

-- lock_to_cancel --
-- A live job, and before it the live jobs that only serve it: of a kind that serves its kind, about its subject, where
-- no other job of its kind is live. Held until the commit.
SELECT w.id
  FROM jobs j JOIN jobs w ON w.subject = j.subject AND w.state IN ('queued', 'running')
 WHERE j.id = %(id)s AND j.state IN ('queued', 'running')
   AND (w.id = j.id
        OR (EXISTS (SELECT 1 FROM unnest(%(servants)s::text[], %(served)s::text[]) AS s (servant, served)
                     WHERE s.servant = w.kind AND s.served = j.kind)
            AND NOT EXISTS (SELECT 1 FROM jobs o
                             WHERE o.kind = j.kind AND o.subject = j.subject AND o.id <> j.id
                               AND o.state IN ('queued', 'running'))))
 ORDER BY w.id = j.id, w.id FOR UPDATE OF w;

-- let_requests_end --
-- A cancelled unload cuts no request that it has not cut yet. A drain of the node that goes on keeps its bound.
UPDATE replicas r SET stop_after = 'infinity'
  FROM jobs j
 WHERE j.id = %(id)s AND j.args->'replicas' @> to_jsonb(r.id::text) AND r.state = 'unloading'
   AND (r.stop_after IS NULL OR r.stop_after > clock_timestamp())
   AND NOT EXISTS (SELECT 1 FROM jobs d
                    WHERE d.kind = 'node.drain' AND d.node_id = r.node_id AND d.state IN ('queued', 'running'));

-- release_hold --
-- A cancelled job that holds nothing: the same may be requested again at once.
UPDATE jobs SET hold_until = NULL WHERE id = %(id)s RETURNING jobs.*, clock_timestamp() AS read_at;

-- free_replica --
-- The attempt's slot and memory, once it is a fact that nothing of it runs.
DELETE FROM replicas WHERE job_id = %(id)s;

-- doom_replica --
-- The stop is pending: slot and memory stay taken, and the row never becomes routable.
UPDATE replicas SET state = 'unloading', updated_at = clock_timestamp()
 WHERE job_id = %(id)s AND state IN ('staging', 'loading');

-- count_failure --
-- One more failure in a row of this revision on its node; another cause begins a new row of them. Whoever changes
-- several of these rows in one transaction takes them in the order of their key: two of them cannot wait for each other.
INSERT INTO failure_streaks AS s (model, revision, node_id, cause, failures, since, last_at, error, job_id)
VALUES (%(model)s, %(revision)s, %(node)s, %(cause)s, 1, %(at)s, %(at)s, %(error)s, %(job)s)
ON CONFLICT (model, revision, node_id) DO UPDATE
   SET failures = CASE WHEN s.cause = EXCLUDED.cause THEN s.failures + 1 ELSE 1 END,
       since = CASE WHEN s.cause = EXCLUDED.cause THEN s.since ELSE EXCLUDED.since END,
       cause = EXCLUDED.cause, last_at = EXCLUDED.last_at, error = EXCLUDED.error, job_id = EXCLUDED.job_id;

-- mark_silent_node --
-- The node did not take or report an order. No reference to its row, which everybody else locks before the job.
INSERT INTO silent_nodes (node_id, since) VALUES (%(node)s, clock_timestamp())
ON CONFLICT (node_id) DO UPDATE SET since = EXCLUDED.since;

-- took_order --
-- A claim has come, whatever the row answers it: the node takes its orders.
DELETE FROM silent_nodes WHERE node_id = %(node)s RETURNING node_id;

-- forget_silence --
-- Failures of a node that took no orders say nothing of one that does.
WITH over AS (
    SELECT model, revision, node_id FROM failure_streaks WHERE node_id = %(node)s AND cause = %(cause)s
     ORDER BY model, revision, node_id FOR UPDATE
)
DELETE FROM failure_streaks s USING over o
 WHERE (s.model, s.revision, s.node_id) = (o.model, o.revision, o.node_id);

-- prune_silent_nodes --
-- Nodes that were removed.
DELETE FROM silent_nodes s WHERE NOT EXISTS (SELECT 1 FROM nodes n WHERE n.id = s.node_id);

-- lapsed_to_adopt --
-- Loads whose owner is lost while their agent works on them, or that were not sent yet. Locks the subjects, because each
-- gets a generation, and the rows: several of them are moved at once, and nobody may wait for them in another order.
SELECT j.*, clock_timestamp() AS read_at
  FROM jobs j JOIN subjects s ON s.kind = %(subject_kind)s AND s.name = j.subject
 WHERE j.state = 'running' AND j.lease_expires_at <= clock_timestamp() AND j.kind = %(kind)s
   AND (j.given_back OR j.adoptions < %(most)s)
   AND (j.op_generation IS NULL OR j.op_seen_at > clock_timestamp() - make_interval(secs => %(fresh)s))
 ORDER BY s.name, j.id LIMIT %(limit)s FOR UPDATE OF s, j SKIP LOCKED;

-- adopt_job --
-- Another owner goes on under the new generation; the old one can write nothing more. The operation keeps its name.
UPDATE jobs
   SET generation = %(new_generation)s, owner = %(owner)s, given_back = false,
       adoptions = adoptions + CASE WHEN given_back THEN 0 ELSE 1 END,
       lease_expires_at = clock_timestamp() + make_interval(secs => %(lease)s), updated_at = clock_timestamp()
 WHERE id = %(id)s AND generation = %(generation)s AND state = 'running' AND lease_expires_at <= clock_timestamp()
   AND (given_back OR adoptions < %(most)s)
   AND (op_generation IS NULL OR op_seen_at > clock_timestamp() - make_interval(secs => %(fresh)s))
RETURNING jobs.*, clock_timestamp() AS read_at;

-- release_jobs --
-- Their owner ends: whoever sweeps next goes on with them. What somebody holds at this moment lapses by itself.
WITH mine AS (
    SELECT id FROM jobs
     WHERE owner = %(owner)s AND state = 'running' AND lease_expires_at > clock_timestamp() AND kind = ANY(%(kinds)s)
       AND (op_generation IS NULL OR op_seen_at > clock_timestamp() - make_interval(secs => %(fresh)s))
     ORDER BY id FOR UPDATE SKIP LOCKED
)
UPDATE jobs j SET lease_expires_at = clock_timestamp(), given_back = true, updated_at = clock_timestamp()
  FROM mine
 WHERE j.id = mine.id AND j.owner = %(owner)s AND j.state = 'running' AND j.lease_expires_at > clock_timestamp()
RETURNING j.*, clock_timestamp() AS read_at;

-- lapsed_to_fail --
-- Jobs whose owner is lost, of kinds whose work may still run on a node. Those that can be adopted are left to that.
-- Nobody waits for these rows; their order is the one of the failures that they may count in one transaction.
SELECT j.*, clock_timestamp() AS read_at FROM jobs j
 WHERE j.state = 'running' AND j.lease_expires_at <= clock_timestamp() AND j.kind = ANY(%(kinds)s)
   AND NOT (j.kind = ANY(%(adoptable)s::text[]) AND (j.given_back OR j.adoptions < %(most)s)
            AND (j.op_generation IS NULL
                 OR COALESCE(j.op_seen_at > clock_timestamp() - make_interval(secs => %(fresh)s), false)))
 ORDER BY j.subject, j.revision, j.node_id, j.id LIMIT %(limit)s FOR UPDATE SKIP LOCKED;

-- lapsed_to_requeue --
-- Jobs whose owner is lost, of kinds whose work lived in the owner. Locks the subjects, because each gets a generation.
SELECT j.*, clock_timestamp() AS read_at
  FROM jobs j JOIN subjects s ON s.kind = %(subject_kind)s AND s.name = j.subject
 WHERE j.state = 'running' AND j.lease_expires_at <= clock_timestamp() AND j.kind = %(kind)s
 ORDER BY s.name LIMIT %(limit)s FOR UPDATE OF s SKIP LOCKED;

-- requeue_job --
-- Another owner takes it under the new generation; the old one can write nothing more.
UPDATE jobs
   SET state = 'queued', generation = %(new_generation)s, owner = NULL, lease_expires_at = NULL,
       attempts = attempts - CASE WHEN given_back THEN 1 ELSE 0 END, given_back = false,
       dispatch_window_s = %(dispatch)s,
       dispatch_expires_at = clock_timestamp() + make_interval(secs => %(dispatch)s), updated_at = clock_timestamp()
 WHERE id = %(id)s AND generation = %(generation)s AND state = 'running' AND op_generation IS NULL
   AND lease_expires_at <= clock_timestamp()
RETURNING jobs.*, clock_timestamp() AS read_at;

-- due_queued --
-- Queued jobs that nobody took within their window, each for one sweep only; the window doubles.
WITH due AS (
    SELECT id FROM jobs
     WHERE state = 'queued' AND dispatch_expires_at <= clock_timestamp() AND kind = ANY(%(kinds)s)
     ORDER BY dispatch_expires_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
UPDATE jobs j
   SET dispatch_window_s = LEAST(j.dispatch_window_s * 2, %(dispatch_max)s),
       dispatch_expires_at = clock_timestamp() + make_interval(secs => LEAST(j.dispatch_window_s * 2, %(dispatch_max)s))
  FROM due
 WHERE j.id = due.id AND j.state = 'queued' AND j.dispatch_expires_at <= clock_timestamp()
RETURNING j.*, clock_timestamp() AS read_at;

-- due_orders --
-- Orders of this owner that nobody claimed within their window, on nodes that can answer; the window doubles.
WITH due AS (
    SELECT j.id FROM jobs j JOIN nodes n ON n.id = j.node_id AND n.status = 'healthy'
     WHERE j.owner = %(owner)s AND j.state = 'running' AND j.op_state = 'sent' AND j.node_incarnation IS NULL
       AND j.dispatch_expires_at <= clock_timestamp()
     ORDER BY j.id LIMIT %(limit)s FOR UPDATE OF j SKIP LOCKED
)
UPDATE jobs j
   SET dispatch_window_s = LEAST(j.dispatch_window_s * 2, %(dispatch_max)s),
       dispatch_expires_at = clock_timestamp() + make_interval(secs => LEAST(j.dispatch_window_s * 2, %(dispatch_max)s))
  FROM due
 WHERE j.id = due.id AND j.owner = %(owner)s AND j.state = 'running' AND j.op_state = 'sent'
   AND j.node_incarnation IS NULL AND j.dispatch_expires_at <= clock_timestamp()
RETURNING j.*, clock_timestamp() AS read_at;

-- due_stops --
-- Pending stops whose pause is over, each for one sweep only. The pause doubles; it may grow longer after the hold.
WITH due AS (
    SELECT id FROM jobs
     WHERE stop_state = 'pending' AND stop_next_at <= clock_timestamp()
     ORDER BY stop_next_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
UPDATE jobs j
   SET stop_attempts = j.stop_attempts + 1,
       stop_next_at = clock_timestamp() + make_interval(secs => LEAST(power(2, LEAST(j.stop_attempts, 16)),
           CASE WHEN j.hold_until > clock_timestamp() THEN %(retry_max)s ELSE %(retry_late)s END))
  FROM due
 WHERE j.id = due.id AND j.stop_state = 'pending' AND j.stop_next_at <= clock_timestamp()
RETURNING j.*, clock_timestamp() AS read_at;

-- confirm_stop --
-- Proof that nothing of the operation runs: its own incarnation or a newer one says so.
UPDATE jobs
   SET stop_state = 'confirmed', stop_next_at = NULL, updated_at = clock_timestamp(),
       hold_until = LEAST(hold_until, clock_timestamp() + make_interval(secs => %(report_window)s))
 WHERE id = %(id)s AND op_generation = %(op_generation)s AND stop_state = 'pending'
   AND COALESCE(node_incarnation, 0) <= %(incarnation)s
RETURNING jobs.*, clock_timestamp() AS read_at;

-- give_up_stops --
-- Stops of work on legacy nodes, which confirm nothing: their window is over.
WITH over AS (
    SELECT id FROM jobs
     WHERE stop_state = 'pending' AND legacy AND stop_deadline <= clock_timestamp()
     ORDER BY stop_deadline LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
UPDATE jobs j SET stop_state = 'none', stop_next_at = NULL, updated_at = clock_timestamp()
  FROM over
 WHERE j.id = over.id AND j.stop_state = 'pending' AND j.legacy AND j.stop_deadline <= clock_timestamp()
RETURNING j.*, clock_timestamp() AS read_at;

-- prune_jobs --
-- Terminal rows that nobody reads any more. A pending stop and the maker of a replica stay. The subquery makes the time a
-- constant of the statement: the index of ended jobs serves no volatile value.
DELETE FROM jobs WHERE id IN (
    SELECT j.id FROM jobs j
     WHERE j.finished_at < (SELECT clock_timestamp() - make_interval(secs => %(older_than)s))
       AND j.stop_state <> 'pending'
       AND NOT EXISTS (SELECT 1 FROM replicas r WHERE r.job_id = j.id)
     ORDER BY j.finished_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED);

-- scrub_env --
-- Orders written by a frontend of an older version hold the values of env: they end with the job. This runs twice a
-- minute, so it reads the jobs of the last hour, by the index of ended jobs, and not all of them.
WITH ended AS (
    SELECT id FROM jobs
     WHERE finished_at > (SELECT clock_timestamp() - interval '1 hour') AND args->'order'->'env' <> '{}'::jsonb
     ORDER BY id FOR UPDATE SKIP LOCKED
)
UPDATE jobs j SET args = jsonb_set(j.args, '{order,env}', '{}') FROM ended WHERE j.id = ended.id;

-- prune_subjects --
-- Counters of processes that are gone. Their names are never used again; those of models are, and stay.
DELETE FROM subjects s
 WHERE s.kind = 'process' AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.subject = s.name);

-- prune_streaks --
-- Failures on nodes that were removed.
WITH gone AS (
    SELECT s.model, s.revision, s.node_id FROM failure_streaks s
     WHERE NOT EXISTS (SELECT 1 FROM nodes n WHERE n.id = s.node_id)
     ORDER BY s.model, s.revision, s.node_id FOR UPDATE OF s
)
DELETE FROM failure_streaks s USING gone g
 WHERE (s.model, s.revision, s.node_id) = (g.model, g.revision, g.node_id);

-- share_node --
-- The life of the agent that speaks for the node; it cannot change before this transaction ends.
SELECT incarnation FROM nodes WHERE id = %(node)s FOR SHARE;

-- claim_operation --
-- The grant. Idempotent for one incarnation; a terminal or foreign row grants nothing.
UPDATE jobs
   SET node_incarnation = %(incarnation)s, op_seen_at = clock_timestamp(), updated_at = clock_timestamp(),
       op_state = CASE WHEN node_incarnation IS NULL THEN 'claimed' ELSE op_state END,
       legacy = false, op_claim_seq = COALESCE(op_claim_seq, %(seq)s, (SELECT report_seq FROM nodes WHERE id = %(node)s)),
       dispatch_window_s = NULL, dispatch_expires_at = NULL
 WHERE id = %(id)s AND op_generation = %(op_generation)s AND node_id = %(node)s AND state = 'running'
   AND (node_incarnation IS NULL OR node_incarnation = %(incarnation)s)
RETURNING jobs.*, clock_timestamp() AS read_at;

-- stages_file --
-- Whether the order of a claimed operation of this node names the file.
SELECT EXISTS (SELECT 1 FROM jobs
                WHERE node_id = %(node)s AND state = 'running' AND op_state = 'claimed'
                  AND args->'order'->'files' @> jsonb_build_array(jsonb_build_object('path', %(path)s::text)));

-- read_node --
-- Which life of the agent the row knows, and its youngest report that changed a row.
SELECT incarnation, report_seq FROM nodes WHERE id = %(node)s;

-- accept_report --
-- A report counts when it is younger than every one that changed a row. Holds the node's row until the commit.
UPDATE nodes SET report_seq = %(seq)s
 WHERE id = %(node)s AND incarnation = %(incarnation)s AND report_seq < %(seq)s
RETURNING incarnation;

-- jobs_on_node --
-- Jobs a report can be about: live there, to be stopped there, or named by it.
SELECT j.*, clock_timestamp() AS read_at FROM jobs j
 WHERE (j.node_id = %(node)s AND (j.state IN ('queued', 'running') OR j.stop_state = 'pending'))
    OR j.id = ANY(%(named)s::uuid[])
 ORDER BY j.id;

-- lock_jobs_on_node --
-- The same, held until the report has been applied.
SELECT j.*, clock_timestamp() AS read_at FROM jobs j
 WHERE (j.node_id = %(node)s AND (j.state IN ('queued', 'running') OR j.stop_state = 'pending'))
    OR j.id = ANY(%(named)s::uuid[])
 ORDER BY j.id FOR UPDATE;

-- replicas_on_node --
-- Replica rows a report can contradict.
SELECT id, job_id, op_generation, process_instance, state FROM replicas WHERE node_id = %(node)s ORDER BY id;

-- report_operation --
-- Progress and renewal in one; matches the operation, not the owner's generation. An agent that has not seen its grant
-- yet says `sent`; the row knows better.
UPDATE jobs
   SET op_state = CASE WHEN %(op_state)s = 'sent' THEN op_state ELSE %(op_state)s END,
       op_seen_at = clock_timestamp(), op_missing = 0, op_error = %(error)s::jsonb,
       phase_started_at = CASE WHEN phase <> %(phase)s THEN clock_timestamp() ELSE phase_started_at END,
       progress_at = CASE WHEN phase <> %(phase)s OR progress < %(progress)s THEN clock_timestamp()
                          ELSE progress_at END,
       phase = %(phase)s, progress = GREATEST(progress, %(progress)s), bytes_done = %(bytes_done)s,
       bytes_total = %(bytes_total)s, file_index = %(file_index)s, files_total = %(files_total)s,
       message = %(message)s, process_instance = COALESCE(%(process_instance)s::uuid, process_instance),
       address = COALESCE(%(address)s, address), identity = COALESCE(%(identity)s, identity),
       updated_at = clock_timestamp()
 WHERE id = %(id)s AND op_generation = %(op_generation)s AND node_id = %(node)s
   AND node_incarnation = %(incarnation)s AND state = 'running'
RETURNING jobs.*, clock_timestamp() AS read_at;

-- load_replica --
-- The replica follows its operation into the phase that fills memory.
UPDATE replicas SET state = 'loading', updated_at = clock_timestamp() WHERE job_id = %(id)s AND state = 'staging';

-- keep_secret --
-- The secret of the process for the frontends. It is deleted with the row, and no job row holds it.
UPDATE replicas SET process_secret = %(secret)s
 WHERE job_id = %(id)s AND state IN ('staging', 'loading') AND process_secret IS DISTINCT FROM %(secret)s;

-- operation_missing --
-- A full report, made after the claim, does not know the operation; three of them end it.
UPDATE jobs
   SET op_missing = op_missing + 1,
       op_state = CASE WHEN op_missing + 1 >= %(missing_reports)s THEN 'ended' ELSE op_state END,
       op_error = CASE WHEN op_missing + 1 >= %(missing_reports)s THEN %(error)s::jsonb ELSE op_error END,
       updated_at = clock_timestamp()
 WHERE id = %(id)s AND op_generation = %(op_generation)s AND node_id = %(node)s
   AND node_incarnation = %(incarnation)s AND state = 'running' AND COALESCE(op_claim_seq, 0) < %(seq)s
RETURNING jobs.*, clock_timestamp() AS read_at;

-- finish_cleanup --
-- The process a cleanup job is about has ended, whoever stopped it.
UPDATE jobs
   SET state = 'succeeded', finished_at = clock_timestamp(), lease_expires_at = NULL, updated_at = clock_timestamp(),
       dispatch_window_s = NULL, dispatch_expires_at = NULL
 WHERE id = %(id)s AND kind = %(cleanup)s AND node_id = %(node)s AND state IN ('queued', 'running')
RETURNING jobs.*, clock_timestamp() AS read_at;

-- delete_replica --
-- The row of a process that has ended.
DELETE FROM replicas WHERE id = %(id)s AND state IN ('loaded', 'unloading') RETURNING id, job_id, state;

-- retire_replica --
-- The process lives and serves no more. Memory and slot stay taken until it has ended.
UPDATE replicas SET state = 'unloading', updated_at = clock_timestamp()
 WHERE id = %(id)s AND state = 'loaded' RETURNING id;

-- running_before_incarnation --
-- Running jobs that an older life of the agent had claimed.
SELECT id FROM jobs
 WHERE node_id = %(node)s AND state = 'running' AND node_incarnation < %(incarnation)s
 ORDER BY id FOR UPDATE;

-- pending_before_incarnation --
-- Stops that the new life of the agent proves. A legacy agent ends nothing that older lives left.
SELECT j.id, j.op_generation FROM jobs j JOIN nodes n ON n.id = j.node_id
 WHERE j.node_id = %(node)s AND j.stop_state = 'pending' AND COALESCE(j.node_incarnation, 0) < %(incarnation)s
   AND (n.reports_operations OR NOT j.legacy)
 ORDER BY j.id FOR UPDATE OF j;

-- delete_older_replicas --
-- Rows of processes that an older life of the agent ran. Those still to be claimed carry no incarnation and stay.
DELETE FROM replicas WHERE node_id = %(node)s AND node_incarnation < %(incarnation)s RETURNING id;

-- raise_routing_version --
-- The last statement of every transaction that changes routability: numbers commit in the order they are drawn.
UPDATE routing_version SET v = v + 1 RETURNING v;

-- declare_periodic --
-- A slow pass and how often it runs.
INSERT INTO periodic (name, interval_s, next_run) VALUES (%(name)s, %(interval)s, clock_timestamp())
ON CONFLICT (name) DO UPDATE SET interval_s = EXCLUDED.interval_s;

-- take_due_periodic --
-- Whoever moves the row forward runs the pass; the next run counts from now, so that a pause causes no burst.
UPDATE periodic
   SET last_run = clock_timestamp(), next_run = clock_timestamp() + make_interval(secs => interval_s)
 WHERE name = ANY(%(names)s) AND next_run <= clock_timestamp()
RETURNING name;
