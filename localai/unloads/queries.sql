-- Unloads. Locks are taken in the order subject, node, job, replica, routing version; the caller holds the subject.

-- anything_of_model --
-- Whether there is anything to do at all; a name that nobody knows gets no row of a subject.
SELECT EXISTS (SELECT 1 FROM replicas WHERE model = %(model)s)
    OR EXISTS (SELECT 1 FROM jobs WHERE kind = 'model.load' AND subject = %(model)s AND state IN ('queued', 'running'));

-- live_loads --
-- Loads that would bring the model back.
SELECT id FROM jobs WHERE kind = 'model.load' AND subject = %(model)s AND state IN ('queued', 'running')
 ORDER BY id FOR UPDATE;

-- mark_unloading --
-- Route nobody to what serves; an `unloading` row never comes back.
UPDATE replicas SET state = 'unloading', updated_at = clock_timestamp()
 WHERE model = %(model)s AND state = 'loaded'
RETURNING id;

-- replicas_of_model --
-- Everything that is to be gone when the unload ends: also what an edit or a cancel is taking away already.
SELECT id FROM replicas WHERE model = %(model)s ORDER BY id;

-- extend_unload --
-- A live unload is about what was found later, too.
UPDATE jobs SET args = jsonb_build_object('replicas', %(replicas)s::jsonb), updated_at = clock_timestamp()
 WHERE kind = 'model.unload' AND subject = %(model)s AND state IN ('queued', 'running')
RETURNING jobs.*, clock_timestamp() AS read_at;

-- left --
-- What of an unload is still there, and who has not let it go.
SELECT n.name AS node, n.status AS node_status, r.process_instance IS NOT NULL AS served,
       coalesce(sum(a.in_flight), 0)::int AS in_flight,
       (count(f.id) FILTER (WHERE a.frontend_id IS NULL))::int AS silent
  FROM jobs j
  JOIN replicas r ON j.args->'replicas' @> to_jsonb(r.id::text)
  JOIN nodes n ON n.id = r.node_id
  LEFT JOIN frontends f ON f.ended_at IS NULL AND f.lease_expires_at > clock_timestamp()
  LEFT JOIN drain_acks a ON a.replica_id = r.id AND a.frontend_id = f.id
 WHERE j.id = %(id)s
 GROUP BY r.id, n.id
 ORDER BY n.name, r.slot;

-- finish_unload --
-- Nothing is left of what the row names; the caller holds the subject, so nothing is added meanwhile.
UPDATE jobs j
   SET state = 'succeeded', finished_at = clock_timestamp(), lease_expires_at = NULL, message = NULL,
       updated_at = clock_timestamp()
 WHERE j.id = %(id)s AND j.generation = %(generation)s AND j.owner = %(owner)s AND j.state = 'running'
   AND j.lease_expires_at > clock_timestamp()
   AND NOT EXISTS (SELECT 1 FROM replicas r WHERE j.args->'replicas' @> to_jsonb(r.id::text))
RETURNING j.*, clock_timestamp() AS read_at;
