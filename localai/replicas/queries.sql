-- Replicas: one row for each (model, slot), whatever its state.

-- routing_snapshot --
-- Version and rows in one statement, so in one snapshot. Only what may serve: loaded, on a healthy node, and of the
-- revision that holds.
SELECT v.v AS version, r.id AS replica_id, r.model, r.slot, r.node_id, n.name AS node_name, r.address,
       r.process_instance, r.identity, r.revision
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
       r.op_generation, r.process_instance, r.reserved_bytes, r.created_at, r.updated_at
  FROM replicas r JOIN nodes n ON n.id = r.node_id
 WHERE (%(node)s::uuid IS NULL OR r.node_id = %(node)s)
 ORDER BY r.model, r.slot;

-- to_clean --
-- Replicas that may serve no more and that no stop and no cleanup job is about yet.
SELECT r.id, r.node_id, r.model, r.slot, r.address, r.process_instance, r.job_id, r.op_generation
  FROM replicas r JOIN jobs j ON j.id = r.job_id
 WHERE r.state = 'unloading' AND r.process_instance IS NOT NULL AND j.stop_state <> 'pending'
   AND NOT EXISTS (SELECT 1 FROM jobs c
                    WHERE c.kind = 'replica.cleanup' AND c.subject = r.process_instance::text
                      AND (c.state IN ('queued', 'running') OR c.hold_until > clock_timestamp()))
 ORDER BY r.id LIMIT %(limit)s;
