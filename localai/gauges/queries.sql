-- What a scrape reads. Each statement looks at few rows and takes no lock.

-- live_loads --
-- How far the live load jobs are.
SELECT state, phase, count(*) AS jobs
  FROM jobs
 WHERE kind = %(kind)s AND state IN ('queued', 'running')
 GROUP BY state, phase;

-- unconfirmed_stops --
-- Ended work that no node has confirmed the end of; a node without any counts too.
SELECT n.name, count(j.id) AS jobs
  FROM nodes n LEFT JOIN jobs j ON j.node_id = n.id AND j.stop_state = 'pending'
 GROUP BY n.name;

-- quarantines --
-- Streaks of failures that keep a model off a node.
SELECT s.model, n.name AS node, s.cause, s.failures
  FROM failure_streaks s JOIN nodes n ON n.id = s.node_id
 WHERE %(after)s > 0 AND s.failures >= %(after)s;

-- node_queues --
-- Every node has a queue.
SELECT id, name FROM nodes;

-- oldest_xmin_age --
-- How many transactions the oldest snapshot of this database is behind; this session's own one does not count.
SELECT GREATEST(
    COALESCE((SELECT max(age(backend_xmin)) FROM pg_stat_activity
               WHERE datname = current_database() AND pid <> pg_backend_pid()), 0),
    COALESCE((SELECT max(age(transaction)) FROM pg_prepared_xacts WHERE database = current_database()), 0)) AS age;
