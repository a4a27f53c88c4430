-- Replicas: one row for each (model, slot), whatever its state.

-- routing_snapshot --
-- Version and rows in one statement, so in one snapshot. Only what may serve: loaded, on a healthy node, and of the
-- revision that holds.
SELECT v.v AS version, r.id AS replica_id, r.model, r.slot, r.node_id, n.name AS node_name, r.address,
       r.process_instance, r.process_secret, r.identity, r.revision
  FROM routing_version v
  LEFT JOIN (replicas r
             JOIN nodes n ON n.id = r.node_id AND n.status = 'healthy'
             JOIN subjects s ON s.kind = 'model' AND s.name = r.model AND s.revision = r.revision)
         ON r.state = 'loaded'
 ORDER BY r.model, r.slot;

-- routing_version --
-- Whether a table read before is still the newest.
SELECT v FROM routing_version;

-- list_replicas --
-- Replicas as people see them; of one node where it is given.
SELECT r.id, r.node_id, n.name AS node_name, r.model, r.slot, r.address, r.state, r.backend, r.revision, r.job_id,
       r.op_generation, r.process_instance, r.reserved_bytes, r.created_at, r.updated_at,
       (SELECT coalesce(sum((f.in_flight ->> r.process_instance::text)::int), 0) FROM frontends f
          WHERE f.ended_at IS NULL AND f.lease_expires_at > clock_timestamp())::int AS in_flight
  FROM replicas r JOIN nodes n ON n.id = r.node_id
 WHERE (%(node)s::uuid IS NULL OR r.node_id = %(node)s)
 ORDER BY r.model, r.slot;

-- to_clean --
-- Replicas that may serve no more, that no live frontend has a request with, and that no stop and no cleanup job is about
-- yet. One statement is one snapshot, so the frontends are read after the mark committed: one that registers later reads
-- rows without the replica. A frontend that lapsed, or ended, is not waited for. At `stop_after` (where it is NULL: the
-- unload timeout after the mark) every frontend cuts its requests; one that has not acknowledged that within the grace is
-- not waited for either.
SELECT r.node_id, r.model, r.slot, r.address, r.process_instance, r.job_id, r.op_generation,
       (SELECT u.id FROM jobs u
         WHERE u.state IN ('queued', 'running')
           AND ((u.kind = 'model.unload' AND u.subject = r.model AND u.args->'replicas' @> to_jsonb(r.id::text))
                OR (u.kind = 'node.drain' AND u.node_id = r.node_id))
         ORDER BY u.kind LIMIT 1) AS parent_id
  FROM replicas r JOIN jobs j ON j.id = r.job_id
 WHERE r.state = 'unloading' AND r.process_instance IS NOT NULL AND j.stop_state <> 'pending'
   AND (NOT EXISTS (SELECT 1 FROM frontends f
                      LEFT JOIN drain_acks a ON a.frontend_id = f.id AND a.replica_id = r.id
                     WHERE f.ended_at IS NULL AND f.lease_expires_at > clock_timestamp()
                       AND (a.frontend_id IS NULL OR a.in_flight > 0))
        OR COALESCE(r.stop_after, r.updated_at + make_interval(secs => %(cut_after)s))
           + make_interval(secs => %(cut_grace)s) <= clock_timestamp())
   AND NOT EXISTS (SELECT 1 FROM jobs c
                    WHERE c.kind = 'replica.cleanup' AND c.subject = r.process_instance::text
                      AND (c.state IN ('queued', 'running') OR c.hold_until > clock_timestamp()))
 ORDER BY r.id LIMIT %(limit)s;
