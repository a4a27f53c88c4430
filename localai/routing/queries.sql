-- Frontends: one row for each web process and each registration of it. A lapsed row never comes back.

-- register_frontend --
-- From the commit on, everybody who takes something away waits for this process.
INSERT INTO frontends (id, host, pid, url, lease_expires_at)
VALUES (%(id)s, %(host)s, %(pid)s, %(url)s, clock_timestamp() + make_interval(secs => %(lease)s));

-- renew_frontend --
-- No row: lapsed or ended. Register anew, with an empty table.
UPDATE frontends SET lease_expires_at = clock_timestamp() + make_interval(secs => %(lease)s)
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
