-- Unloads and drains: what takes replicas away without cutting a request. A scope is a model, a node, or a model on a
-- node; NULL does not narrow it. Locks are taken in the order subject, node, job, replica, routing version.

-- anything_there --
-- Whether there is anything to do at all; a name that nobody knows gets no row of a subject.
SELECT EXISTS (SELECT 1 FROM replicas
                WHERE (%(model)s::text IS NULL OR model = %(model)s) AND (%(node)s::uuid IS NULL OR node_id = %(node)s))
    OR EXISTS (SELECT 1 FROM jobs
                WHERE kind = 'model.load' AND state IN ('queued', 'running')
                  AND (%(model)s::text IS NULL OR subject = %(model)s)
                  AND (%(node)s::uuid IS NULL OR node_id = %(node)s));

-- live_loads --
-- Loads that would bring something back. The caller holds the subjects, so none is placed or finished meanwhile.
SELECT id FROM jobs
 WHERE kind = 'model.load' AND state IN ('queued', 'running')
   AND (%(model)s::text IS NULL OR subject = %(model)s) AND (%(node)s::uuid IS NULL OR node_id = %(node)s)
 ORDER BY id;

-- mark_unloading --
-- Route nobody to what serves; an `unloading` row never comes back.
UPDATE replicas SET state = 'unloading', updated_at = clock_timestamp()
 WHERE state = 'loaded'
   AND (%(model)s::text IS NULL OR model = %(model)s) AND (%(node)s::uuid IS NULL OR node_id = %(node)s)
RETURNING id;

-- force_stop --
-- Requests in flight do not keep these replicas from their stop any more. A repeat changes nothing.
UPDATE replicas SET stop_after = clock_timestamp()
 WHERE state = 'unloading' AND process_instance IS NOT NULL
   AND (stop_after IS NULL OR stop_after > clock_timestamp())
   AND (%(model)s::text IS NULL OR model = %(model)s) AND (%(node)s::uuid IS NULL OR node_id = %(node)s)
RETURNING id;

-- bound_again --
-- A cancelled unload let the requests of these replicas run; the bound of a new one counts from now.
UPDATE replicas SET stop_after = NULL, updated_at = clock_timestamp()
 WHERE state = 'unloading' AND stop_after = 'infinity'
   AND (%(model)s::text IS NULL OR model = %(model)s) AND (%(node)s::uuid IS NULL OR node_id = %(node)s);

-- force_job --
-- A live unload or drain whose replicas are not to wait for requests; a drain marks more of them later.
UPDATE jobs SET args = args || '{"cut": true}', updated_at = clock_timestamp()
 WHERE id = %(id)s AND kind = ANY(%(kinds)s) AND state IN ('queued', 'running')
RETURNING jobs.*, clock_timestamp() AS read_at;

-- force_stop_of_job --
-- The same as `force_stop` for the replicas of an unload or a drain.
UPDATE replicas r SET stop_after = clock_timestamp()
  FROM jobs j
 WHERE j.id = %(id)s
   AND ((j.kind = 'node.drain' AND r.node_id = j.node_id) OR j.args->'replicas' @> to_jsonb(r.id::text))
   AND r.state = 'unloading' AND r.process_instance IS NOT NULL
   AND (r.stop_after IS NULL OR r.stop_after > clock_timestamp())
RETURNING r.id;

-- replicas_there --
-- Everything that is to be gone when the unload ends: also what an edit or a cancel is taking away already.
SELECT id FROM replicas
 WHERE (%(model)s::text IS NULL OR model = %(model)s) AND (%(node)s::uuid IS NULL OR node_id = %(node)s)
 ORDER BY id;

-- extend_unload --
-- A live unload is about what was found later, too, on whichever node.
UPDATE jobs
   SET args = args || jsonb_build_object('replicas',
           (SELECT jsonb_agg(DISTINCT found) FROM jsonb_array_elements(args->'replicas' || %(replicas)s::jsonb) found)),
       updated_at = clock_timestamp()
 WHERE kind = 'model.unload' AND subject = %(model)s AND state IN ('queued', 'running')
RETURNING jobs.*, clock_timestamp() AS read_at;

-- left --
-- What of an unload or drain is still there, who has not let it go, and what its worker says to the stop.
SELECT r.model, n.name AS node, n.id AS node_id, n.status AS node_status, r.process_instance IS NOT NULL AS served,
       coalesce(sum(a.in_flight), 0)::int AS in_flight,
       (count(f.id) FILTER (WHERE a.frontend_id IS NULL))::int AS silent,
       CASE WHEN r.state = 'unloading'
             AND COALESCE(r.stop_after, r.updated_at + make_interval(secs => %(cut_after)s)) < 'infinity'
            THEN COALESCE(r.stop_after, r.updated_at + make_interval(secs => %(cut_after)s)) END AS cut_at,
       (SELECT c.message FROM jobs c
         WHERE c.kind = 'replica.cleanup' AND c.subject = r.process_instance::text
           AND c.state IN ('queued', 'running')) AS refused
  FROM jobs j
  JOIN replicas r ON (j.kind = 'node.drain' AND r.node_id = j.node_id) OR j.args->'replicas' @> to_jsonb(r.id::text)
  JOIN nodes n ON n.id = r.node_id
  LEFT JOIN frontends f ON f.ended_at IS NULL AND f.lease_expires_at > clock_timestamp()
  LEFT JOIN drain_acks a ON a.replica_id = r.id AND a.frontend_id = f.id
 WHERE j.id = %(id)s
 GROUP BY r.id, n.id
 ORDER BY n.name, r.model, r.slot;

-- finish_unload --
-- Nothing is left of what the row names; the caller holds the subject, so nothing is added meanwhile.
UPDATE jobs j
   SET state = 'succeeded', finished_at = clock_timestamp(), lease_expires_at = NULL, message = NULL,
       updated_at = clock_timestamp()
 WHERE j.id = %(id)s AND j.generation = %(generation)s AND j.owner = %(owner)s AND j.state = 'running'
   AND j.lease_expires_at > clock_timestamp()
   AND NOT EXISTS (SELECT 1 FROM replicas r WHERE j.args->'replicas' @> to_jsonb(r.id::text))
RETURNING j.*, clock_timestamp() AS read_at;

-- node_name --
-- What the node is called, which is what its drains are about.
SELECT name FROM nodes WHERE id = %(node)s;

-- drain_node --
-- From the commit on nothing is placed there and nobody is routed there. A node that is away keeps its status.
UPDATE nodes
   SET draining = true,
       status = CASE WHEN status IN ('healthy', 'unhealthy') THEN 'draining' ELSE status END,
       status_at = CASE WHEN status IN ('healthy', 'unhealthy') THEN clock_timestamp() ELSE status_at END,
       updated_at = clock_timestamp()
 WHERE id = %(node)s
RETURNING id;

-- resume_node --
-- Work may go there again. What was marked while it was drained does not come back.
UPDATE nodes
   SET draining = false,
       status = CASE WHEN status = 'draining' THEN 'healthy' ELSE status END,
       status_at = CASE WHEN status = 'draining' THEN clock_timestamp() ELSE status_at END,
       updated_at = clock_timestamp()
 WHERE id = %(node)s AND draining
RETURNING id;

-- live_drain --
-- The drain under way.
SELECT id FROM jobs WHERE kind = 'node.drain' AND subject = %(name)s AND state IN ('queued', 'running') FOR UPDATE;

-- extend_drain --
-- A drain becomes a removal, and never less than it was asked for.
UPDATE jobs SET args = args || %(wish)s::jsonb, updated_at = clock_timestamp()
 WHERE kind = 'node.drain' AND subject = %(name)s AND state IN ('queued', 'running')
RETURNING jobs.*, clock_timestamp() AS read_at;

-- release --
-- A drain that was called off holds nothing: the node may be drained again at once.
UPDATE jobs SET hold_until = NULL WHERE id = %(id)s RETURNING jobs.*, clock_timestamp() AS read_at;

-- models_to_take --
-- Models of which something on the node serves or loads.
SELECT model FROM replicas WHERE node_id = %(node)s AND state = 'loaded'
 UNION
SELECT subject FROM jobs WHERE kind = 'model.load' AND node_id = %(node)s AND state IN ('queued', 'running')
 ORDER BY 1;

-- hold_node --
-- The node of a drain, held until the commit.
SELECT id, name, status FROM nodes WHERE id = %(node)s FOR UPDATE;

-- finish_drain --
-- Nothing is left on the node, or it goes without.
UPDATE jobs j
   SET state = 'succeeded', finished_at = clock_timestamp(), lease_expires_at = NULL, message = NULL,
       updated_at = clock_timestamp()
 WHERE j.id = %(id)s AND j.generation = %(generation)s AND j.owner = %(owner)s AND j.state = 'running'
   AND j.lease_expires_at > clock_timestamp()
   AND (%(anyway)s OR NOT EXISTS (SELECT 1 FROM replicas r WHERE r.node_id = j.node_id))
RETURNING j.*, clock_timestamp() AS read_at;

-- give_up_stops --
-- Nobody will ever answer for the node. Its holds end by their bound, as if it had been silent.
UPDATE jobs SET stop_state = 'confirmed', stop_next_at = NULL, updated_at = clock_timestamp()
 WHERE node_id = %(node)s AND stop_state = 'pending'
RETURNING jobs.*, clock_timestamp() AS read_at;

-- remember_removed --
-- Its agent, should it call again, is told to end.
INSERT INTO removed_nodes (id, name) VALUES (%(node)s, %(name)s) ON CONFLICT (id) DO NOTHING;

-- delete_node --
-- With its replica rows and its credential; jobs keep their history and forget the node.
DELETE FROM nodes WHERE id = %(node)s;
