-- Nodes: one row for each name, one incarnation for each life of its agent.

-- lock_name --
-- One registration of a name at a time, also of a name that has no row yet.
SELECT pg_advisory_xact_lock(hashtextextended('localai node ' || %(name)s, 0));

-- known_node --
-- Held until the registration commits. A node is matched by its name and keeps its id.
SELECT id, approved, draining, incarnation, status, status_at, last_heartbeat, address, http_address, secret_hash,
       contested_at, pending_reason, labels, clock_timestamp() AS now
  FROM nodes WHERE name = %(name)s FOR UPDATE;

-- refuse_registration --
-- Shown to administrators.
UPDATE nodes
   SET refused_registration = jsonb_build_object('at', to_char(clock_timestamp() AT TIME ZONE 'UTC',
                                                               'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
                                                 'address', %(address)s::text, 'http_address', %(http_address)s::text,
                                                 'reason', %(reason)s::text)
 WHERE id = %(id)s;

-- lock_pending --
-- New nodes that wait for approval come one after the other, so that their number has a limit.
SELECT pg_advisory_xact_lock(hashtextextended('localai pending nodes', 0));

-- pending_nodes --
SELECT count(*) FROM nodes WHERE status = 'pending';

-- heard_of_replaced --
-- The newest replaced credential was that of the incarnation before this one, and so on.
UPDATE nodes
   SET contested_at = CASE
           WHEN moved_incarnation > incarnation - array_position(replaced_credentials, %(credential_hash)s::text)
           THEN clock_timestamp() ELSE contested_at END
 WHERE id = %(id)s AND %(credential_hash)s::text = ANY(replaced_credentials)
RETURNING id;

-- contest_node --
-- An older incarnation was heard of after a registration from another address.
UPDATE nodes SET contested_at = clock_timestamp() WHERE id = %(id)s AND moved_incarnation > %(incarnation)s;

-- register_node --
-- A new life of the agent: its number is drawn here, its reports begin at zero, its older credential ends.
INSERT INTO nodes (id, name, node_type, status, approved, address, http_address, incarnation, report_seq,
                   credential_hash, version, capability, reports_operations, labels, max_replicas_per_model, total_vram, available_vram,
                   total_ram, available_ram, total_disk, available_disk, gpu_vendor, gpu_compute_capability,
                   cpu_logical_cores, cpu_usage_percent, cpu_load_1, secret_hash,
                   staged_files, process_memory, last_heartbeat)
VALUES (%(id)s, %(name)s, %(node_type)s, %(status)s, %(approved)s, %(address)s, %(http_address)s, 1, 0,
        %(credential_hash)s, %(version)s, %(capability)s, %(reports_operations)s, %(labels)s::jsonb, %(max_replicas)s, %(total_vram)s,
        %(available_vram)s, %(total_ram)s, %(available_ram)s, %(total_disk)s, %(available_disk)s, %(gpu_vendor)s,
        %(gpu_compute_capability)s, %(cpu_logical_cores)s, %(cpu_usage_percent)s, %(cpu_load_1)s, %(secret_hash)s,
        %(staged_files)s::jsonb, %(process_memory)s::jsonb, clock_timestamp())
ON CONFLICT (name) DO UPDATE
   SET node_type = EXCLUDED.node_type, status = EXCLUDED.status, status_at = clock_timestamp(),
       approved = EXCLUDED.approved, address = EXCLUDED.address, http_address = EXCLUDED.http_address,
       incarnation = nodes.incarnation + 1, report_seq = 0, credential_hash = EXCLUDED.credential_hash,
       replaced_credentials = (ARRAY[nodes.credential_hash] || nodes.replaced_credentials)[1:8],
       version = EXCLUDED.version, capability = EXCLUDED.capability,
       reports_operations = EXCLUDED.reports_operations, labels = nodes.labels || EXCLUDED.labels,
       max_replicas_per_model = CASE WHEN nodes.max_replicas_set_by_admin THEN nodes.max_replicas_per_model
                                     ELSE EXCLUDED.max_replicas_per_model END,
       total_vram = COALESCE(EXCLUDED.total_vram, nodes.total_vram),
       available_vram = COALESCE(EXCLUDED.available_vram, nodes.available_vram),
       total_ram = COALESCE(EXCLUDED.total_ram, nodes.total_ram),
       available_ram = COALESCE(EXCLUDED.available_ram, nodes.available_ram),
       total_disk = COALESCE(EXCLUDED.total_disk, nodes.total_disk),
       available_disk = COALESCE(EXCLUDED.available_disk, nodes.available_disk),
       gpu_vendor = COALESCE(EXCLUDED.gpu_vendor, nodes.gpu_vendor),
       gpu_compute_capability = COALESCE(EXCLUDED.gpu_compute_capability, nodes.gpu_compute_capability),
       cpu_logical_cores = COALESCE(EXCLUDED.cpu_logical_cores, nodes.cpu_logical_cores),
       cpu_usage_percent = COALESCE(EXCLUDED.cpu_usage_percent, nodes.cpu_usage_percent),
       cpu_load_1 = COALESCE(EXCLUDED.cpu_load_1, nodes.cpu_load_1),
       secret_hash = COALESCE(EXCLUDED.secret_hash, nodes.secret_hash), pending_reason = %(pending_reason)s,
       moved_incarnation = CASE WHEN %(moved)s THEN nodes.incarnation + 1 ELSE nodes.moved_incarnation END,
       contested_at = CASE WHEN %(moved)s THEN NULL ELSE nodes.contested_at END,
       staged_files = EXCLUDED.staged_files, process_memory = EXCLUDED.process_memory,
       doubted_at = NULL, last_heartbeat = clock_timestamp(), updated_at = clock_timestamp()
RETURNING id, name, node_type, status, created_at, incarnation;

-- beat_row --
-- What a heartbeat is compared with.
SELECT id, status, incarnation, last_heartbeat, total_vram, available_vram, total_ram, available_ram, total_disk,
       available_disk, gpu_vendor, gpu_compute_capability, cpu_logical_cores, cpu_usage_percent, cpu_load_1,
       doubted_at IS NOT NULL AS doubted, clock_timestamp() AS now
  FROM nodes WHERE id = %(id)s;

-- write_beat --
-- A figure the node could not read keeps its last value.
UPDATE nodes
   SET last_heartbeat = clock_timestamp(), doubted_at = NULL,
       total_vram = COALESCE(%(total_vram)s, total_vram), available_vram = COALESCE(%(available_vram)s, available_vram),
       total_ram = COALESCE(%(total_ram)s, total_ram), available_ram = COALESCE(%(available_ram)s, available_ram),
       total_disk = COALESCE(%(total_disk)s, total_disk), available_disk = COALESCE(%(available_disk)s, available_disk),
       gpu_vendor = COALESCE(%(gpu_vendor)s, gpu_vendor),
       gpu_compute_capability = COALESCE(%(gpu_compute_capability)s, gpu_compute_capability),
       cpu_logical_cores = COALESCE(%(cpu_logical_cores)s, cpu_logical_cores),
       cpu_usage_percent = COALESCE(%(cpu_usage_percent)s, cpu_usage_percent),
       cpu_load_1 = COALESCE(%(cpu_load_1)s, cpu_load_1),
       staged_files = COALESCE(%(staged_files)s::jsonb, staged_files),
       process_memory = COALESCE(%(process_memory)s::jsonb, process_memory)
 WHERE id = %(id)s AND incarnation = %(incarnation)s
RETURNING status;

-- approve_node --
-- An administrator lets the node in. A node that waited for it serves at once; any other keeps its status.
UPDATE nodes
   SET approved = true, pending_reason = NULL, refused_registration = NULL,
       status = CASE WHEN status <> 'pending' THEN status WHEN draining THEN 'draining' ELSE 'healthy' END,
       status_at = CASE WHEN status = 'pending' THEN clock_timestamp() ELSE status_at END,
       updated_at = clock_timestamp()
 WHERE id = %(id)s
RETURNING id;

-- deregister_node --
-- The agent says that it ends. Row and approval stay.
UPDATE nodes SET status = 'offline', status_at = clock_timestamp(), updated_at = clock_timestamp()
 WHERE id = %(id)s AND (%(incarnation)s::bigint IS NULL OR incarnation = %(incarnation)s)
RETURNING id;

-- mark_silent --
-- Nodes without a durable heartbeat for too long. One that was being drained comes back as such.
UPDATE nodes SET status = 'offline', status_at = clock_timestamp(), updated_at = clock_timestamp()
 WHERE status IN ('healthy', 'unhealthy', 'draining')
   AND last_heartbeat < clock_timestamp() - make_interval(secs => %(threshold)s)
RETURNING id;

-- doubt_node --
-- A web process reached neither a model process nor the agent. The next heartbeat is written, and ends the doubt.
UPDATE nodes SET doubted_at = clock_timestamp()
 WHERE id = %(id)s AND status = 'healthy' AND doubted_at IS NULL
RETURNING id;

-- mark_doubted --
-- Nodes that sent no heartbeat since they were doubted. Their replica rows stay, and serve again when the node returns.
UPDATE nodes SET status = 'unhealthy', status_at = clock_timestamp(), updated_at = clock_timestamp()
 WHERE status = 'healthy' AND doubted_at < clock_timestamp() - make_interval(secs => %(threshold)s)
RETURNING id;

-- mark_returned --
-- Nodes that were given up and have been heard of since.
UPDATE nodes
   SET status = CASE WHEN draining THEN 'draining' ELSE 'healthy' END, status_at = clock_timestamp(),
       updated_at = clock_timestamp()
 WHERE status IN ('offline', 'unhealthy') AND approved AND last_heartbeat > status_at
   AND last_heartbeat >= clock_timestamp() - make_interval(secs => %(threshold)s)
RETURNING id;

-- credential --
-- The hash of the node's own credential.
SELECT credential_hash FROM nodes WHERE id = %(id)s;

-- node_secret --
-- The hash of the secret in the data folder of its worker.
SELECT secret_hash FROM nodes WHERE id = %(id)s;

-- was_removed --
-- Whether this id was a node until an administrator removed it.
SELECT EXISTS (SELECT 1 FROM removed_nodes WHERE id = %(id)s);

-- list_nodes --
-- Nodes as people see them, with the job that drains or removes one.
SELECT n.*, (SELECT s.since FROM silent_nodes s WHERE s.node_id = n.id) AS silent_since,
       (SELECT jsonb_build_object('job_id', j.id, 'message', j.message,
                                  'removing', coalesce((j.args->>'remove')::boolean, false))
          FROM jobs j
         WHERE j.kind = 'node.drain' AND j.node_id = n.id AND j.state IN ('queued', 'running')
         LIMIT 1) AS drain,
       (SELECT jsonb_agg(jsonb_build_object(
                   'model', p.model, 'state', p.state, 'reserved_bytes', p.reserved_bytes,
                   'process_instance', coalesce(p.process_instance, j.process_instance),
                   'shown', coalesce(coalesce(p.loaded_at, CASE WHEN p.state = 'loaded' THEN p.updated_at END)
                                     <= n.last_heartbeat, false)))
          FROM replicas p JOIN jobs j ON j.id = p.job_id
         WHERE p.node_id = n.id) AS promises,
       (count(r.id) FILTER (WHERE r.state = 'loaded'))::int AS model_count,
       coalesce(sum((SELECT coalesce(sum((f.in_flight ->> r.process_instance::text)::int), 0) FROM frontends f
          WHERE f.ended_at IS NULL AND f.lease_expires_at > clock_timestamp())), 0)::int AS in_flight_count
  FROM nodes n LEFT JOIN replicas r ON r.node_id = n.id
 WHERE (%(id)s::uuid IS NULL OR n.id = %(id)s)
 GROUP BY n.id
 ORDER BY n.name;

-- raise_routing_version --
-- The last statement of every transaction that changes routability.
UPDATE routing_version SET v = v + 1 RETURNING v;

-- drop_unused_join_tokens --
-- Of the name, because a newer token replaces them; and of every name once they are of no use.
DELETE FROM join_tokens WHERE used_at IS NULL AND (node_name = %(name)s OR expires_at <= clock_timestamp());

-- make_join_token --
INSERT INTO join_tokens (id, token_hash, node_name, expires_at)
VALUES (%(id)s, %(token_hash)s, %(name)s, clock_timestamp() + make_interval(secs => %(seconds)s))
RETURNING expires_at;

-- join_token --
SELECT 1 FROM join_tokens WHERE token_hash = %(token_hash)s;

-- lock_join_token --
-- Held until the registration commits, so that two workers cannot both be the first.
SELECT node_name, expires_at, secret_hash, clock_timestamp() AS now
  FROM join_tokens WHERE token_hash = %(token_hash)s FOR UPDATE;

-- bind_join_token --
UPDATE join_tokens SET used_at = clock_timestamp(), secret_hash = %(secret_hash)s, node_id = %(node)s
 WHERE token_hash = %(token_hash)s;

-- log_key --
-- The hash of the credential of a node that joined with a token of its own: its worker shows logs for it.
SELECT n.credential_hash FROM nodes n
 WHERE n.id = %(id)s AND EXISTS (SELECT 1 FROM join_tokens t WHERE t.node_id = n.id);
