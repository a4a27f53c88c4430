-- Sessions of the pages that a person ended. Others have no row: they are signed values.

-- end_session --
-- A repeat changes nothing. The row is of no use after the time at which the session would have ended by itself.
INSERT INTO ended_sessions (digest, ends_at)
VALUES (%(digest)s, clock_timestamp() + make_interval(secs => %(for_s)s))
ON CONFLICT (digest) DO NOTHING;

-- is_ended_session --
-- Whether a person ended it.
SELECT 1 FROM ended_sessions WHERE digest = %(digest)s;

-- prune_ended_sessions --
-- Sessions that would have ended by themselves.
DELETE FROM ended_sessions WHERE ends_at < clock_timestamp();
