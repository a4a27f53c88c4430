-- The shared note of all sweeps, and stored times that lie further ahead than their own window allows. Rows that
-- others hold are skipped, except live jobs: they are mended with the next note, and no pass waits for them.

-- read_note --
-- When a pass last noted the time, and whether any agent could have reported since.
SELECT o.noted_at, o.resumed_at,
       EXISTS (SELECT 1 FROM frontends f WHERE f.ended_at IS NULL AND f.lease_expires_at > clock_timestamp()) AS heard,
       clock_timestamp() AS now
  FROM observation o;

-- hold_note --
-- One pass decides at a time; the others leave it to that one.
SELECT 1 FROM observation FOR UPDATE SKIP LOCKED;

-- write_note --
-- The observation goes on, or begins anew.
UPDATE observation
   SET noted_at = clock_timestamp(), resumed_at = CASE WHEN %(resumes)s THEN clock_timestamp() ELSE resumed_at END
 WHERE id = 1;

-- mend_live_jobs --
-- Seconds that nothing was observed for count for no budget and are no silence of an agent. A time ahead of the clock
-- becomes now; a lease or window becomes as long as its setting. Rows that others hold are waited for: the seconds of a
-- gap are added once, so a row that was skipped would keep them as silence. If the wait takes too long, the note is undone.
WITH live AS (
    SELECT id FROM jobs
     WHERE state IN ('queued', 'running')
       AND (%(unseen)s > 0 OR GREATEST(created_at, started_at, placed_at, phase_started_at, progress_at, op_seen_at)
               > clock_timestamp()
            OR lease_expires_at > clock_timestamp() + make_interval(secs => %(lease)s)
            OR dispatch_expires_at > clock_timestamp() + make_interval(secs => dispatch_window_s))
     ORDER BY id FOR UPDATE
)
UPDATE jobs j
   SET created_at = created_at + LEAST(interval '0', clock_timestamp() - created_at),
       started_at = started_at + LEAST(make_interval(secs => %(unseen)s), clock_timestamp() - started_at),
       placed_at = placed_at + LEAST(make_interval(secs => %(unseen)s), clock_timestamp() - placed_at),
       phase_started_at = phase_started_at
           + LEAST(make_interval(secs => %(unseen)s), clock_timestamp() - phase_started_at),
       progress_at = progress_at + LEAST(make_interval(secs => %(unseen)s), clock_timestamp() - progress_at),
       op_seen_at = op_seen_at + LEAST(make_interval(secs => %(unseen)s), clock_timestamp() - op_seen_at),
       lease_expires_at = lease_expires_at + LEAST(
           interval '0', clock_timestamp() + make_interval(secs => %(lease)s) - lease_expires_at),
       dispatch_expires_at = dispatch_expires_at + LEAST(
           interval '0', clock_timestamp() + make_interval(secs => dispatch_window_s) - dispatch_expires_at)
  FROM live
 WHERE j.id = live.id;

-- mend_ended_jobs --
-- A job that ended ahead of the clock ended now. Its hold and its stop window keep their length. The subquery makes the
-- time a constant of the statement: the index of ended jobs serves no volatile value, and there may be 100,000 of them.
WITH ahead AS (
    SELECT id FROM jobs WHERE finished_at > (SELECT clock_timestamp()) ORDER BY id FOR UPDATE SKIP LOCKED
)
UPDATE jobs j
   SET hold_until = hold_until + (clock_timestamp() - finished_at),
       stop_deadline = stop_deadline + (clock_timestamp() - finished_at), finished_at = clock_timestamp(),
       created_at = LEAST(created_at, clock_timestamp())
  FROM ahead
 WHERE j.id = ahead.id;

-- mend_stops --
-- The pause before a stop is sent again is never longer than the longest one.
WITH ahead AS (
    SELECT id FROM jobs
     WHERE stop_state = 'pending' AND stop_next_at > clock_timestamp() + make_interval(secs => %(retry_late)s)
     ORDER BY id FOR UPDATE SKIP LOCKED
)
UPDATE jobs j SET stop_next_at = clock_timestamp() + make_interval(secs => %(retry_late)s) FROM ahead WHERE j.id = ahead.id;

-- mend_subjects --
-- A config that is edited from now on is newer than the revision in force.
WITH ahead AS (
    SELECT kind, name FROM subjects WHERE revision_at > clock_timestamp() ORDER BY kind, name FOR UPDATE SKIP LOCKED
)
UPDATE subjects s SET revision_at = clock_timestamp() FROM ahead a WHERE (s.kind, s.name) = (a.kind, a.name);

-- mend_nodes --
-- The next heartbeat is younger than both, so a node that reports comes back with it.
WITH ahead AS (
    SELECT id FROM nodes WHERE GREATEST(last_heartbeat, status_at, doubted_at) > clock_timestamp() ORDER BY id FOR UPDATE SKIP LOCKED
)
UPDATE nodes n
   SET last_heartbeat = last_heartbeat + LEAST(interval '0', clock_timestamp() - last_heartbeat),
       status_at = status_at + LEAST(interval '0', clock_timestamp() - status_at),
       doubted_at = doubted_at + LEAST(interval '0', clock_timestamp() - doubted_at)
  FROM ahead
 WHERE n.id = ahead.id;

-- mend_replicas --
-- Memory of a replica counts until a younger heartbeat shows it. One that is taken away keeps its time to end requests.
WITH spoiled AS (
    SELECT id FROM replicas
     WHERE GREATEST(updated_at, loaded_at) > clock_timestamp() OR (stop_after > clock_timestamp() AND stop_after <> 'infinity')
        OR (state = 'unloading' AND %(unseen)s > 0)
     ORDER BY id FOR UPDATE SKIP LOCKED
)
UPDATE replicas r
   SET updated_at = updated_at + LEAST(
           make_interval(secs => CASE WHEN state = 'unloading' THEN %(unseen)s ELSE 0 END),
           clock_timestamp() - updated_at),
       loaded_at = loaded_at + LEAST(interval '0', clock_timestamp() - loaded_at),
       stop_after = CASE WHEN stop_after = 'infinity' THEN stop_after
                         WHEN stop_after IS NOT NULL THEN LEAST(stop_after, clock_timestamp()) END
  FROM spoiled
 WHERE r.id = spoiled.id;

-- mend_frontends --
-- An eviction waits for a web process that is gone no longer than one lease.
WITH ahead AS (
    SELECT id FROM frontends
     WHERE lease_expires_at > clock_timestamp() + make_interval(secs => %(frontend_lease)s)
     ORDER BY id FOR UPDATE SKIP LOCKED
)
UPDATE frontends f SET lease_expires_at = clock_timestamp() + make_interval(secs => %(frontend_lease)s)
  FROM ahead
 WHERE f.id = ahead.id;

-- mend_streaks --
-- Failures in a row, in the order of their key.
WITH ahead AS (
    SELECT model, revision, node_id FROM failure_streaks WHERE GREATEST(since, last_at) > clock_timestamp()
     ORDER BY model, revision, node_id FOR UPDATE SKIP LOCKED
)
UPDATE failure_streaks s SET since = LEAST(since, clock_timestamp()), last_at = LEAST(last_at, clock_timestamp())
  FROM ahead a
 WHERE (s.model, s.revision, s.node_id) = (a.model, a.revision, a.node_id);

-- mend_silent_nodes --
-- A node is passed over no longer than its hold.
UPDATE silent_nodes SET since = clock_timestamp() WHERE since > clock_timestamp();

-- mend_periodic --
-- A slow pass never waits longer than its interval.
UPDATE periodic SET next_run = clock_timestamp() + make_interval(secs => interval_s)
 WHERE next_run > clock_timestamp() + make_interval(secs => interval_s);
