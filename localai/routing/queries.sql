-- Frontends: one row for each web process and each registration of it. A lapsed row never comes back.

-- register_frontend --
-- From the commit on, everybody who takes something away waits for this process.
INSERT INTO frontends (id, host, pid, url, instance_id, lease_expires_at)
VALUES (%(id)s, %(host)s, %(pid)s, %(url)s, %(instance_id)s, clock_timestamp() + make_interval(secs => %(lease)s));

-- renew_frontend --
-- No row: lapsed or ended. Register anew, with an empty table.
UPDATE frontends
   SET lease_expires_at = clock_timestamp() + make_interval(secs => %(lease)s), in_flight = %(in_flight)s::jsonb
 WHERE id = %(id)s AND ended_at IS NULL AND lease_expires_at > clock_timestamp()
RETURNING id;

-- end_frontend --
-- The process is over; nobody waits for it.
UPDATE frontends SET ended_at = clock_timestamp(), lease_expires_at = LEAST(lease_expires_at, clock_timestamp())
 WHERE id = %(id)s AND ended_at IS NULL;

-- mark_lapsed_frontends --
-- Rows whose process fell silent.
UPDATE frontends SET ended_at = clock_timestamp() WHERE ended_at IS NULL AND lease_expires_at <= clock_timestamp()
RETURNING id;

-- prune_frontends --
-- Rows of processes that are long gone.
DELETE FROM frontends WHERE ended_at < clock_timestamp() - make_interval(secs => %(older_than)s);

-- open_drains --
-- Replicas that are being taken away, and that this process has not said to be done with. One that was never loaded has
-- no process that could be routed to. `cut`: requests with it are to be ended now. The bound from the mark is not judged
-- in a gap of the observation; the note that ends the gap commits together with the times that it mends.
SELECT r.id AS replica_id, r.process_instance, a.in_flight AS said,
       COALESCE(r.stop_after <= clock_timestamp(),
                r.updated_at + make_interval(secs => %(cut_after)s) <= clock_timestamp()
                AND (%(gap)s::float8 IS NULL
                     OR EXISTS (SELECT 1 FROM observation o
                                 WHERE o.noted_at >= clock_timestamp() - make_interval(secs => %(gap)s))),
                false) AS cut
  FROM replicas r LEFT JOIN drain_acks a ON a.replica_id = r.id AND a.frontend_id = %(frontend)s
 WHERE r.state = 'unloading' AND r.process_instance IS NOT NULL AND a.in_flight IS DISTINCT FROM 0
 ORDER BY r.id;

-- acknowledge_drain --
-- Only a process whose own row still holds says anything; and only about a replica that is still there.
INSERT INTO drain_acks AS a (replica_id, frontend_id, in_flight)
SELECT r.id, f.id, %(in_flight)s
  FROM (SELECT id FROM replicas WHERE id = %(replica)s AND state = 'unloading' FOR KEY SHARE) r,
       (SELECT id FROM frontends WHERE id = %(frontend)s AND ended_at IS NULL AND lease_expires_at > clock_timestamp()
           FOR KEY SHARE) f
ON CONFLICT (replica_id, frontend_id) DO UPDATE SET in_flight = EXCLUDED.in_flight, at = clock_timestamp()
RETURNING a.in_flight;
