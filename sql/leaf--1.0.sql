/* sql/leaf--1.0.sql */

\echo Use "CREATE EXTENSION leaf" to load this file. \quit

-- The allocation table, as in Leaf

CREATE TABLE @extschema@.leaf_alloc (
	biz_tag		varchar(128) COLLATE "C" PRIMARY KEY,
	max_id		bigint NOT NULL DEFAULT 1,
	step		int NOT NULL DEFAULT 1000,
	description	varchar(256),
	update_time	timestamptz NOT NULL DEFAULT now(),
	CONSTRAINT leaf_alloc_biz_tag_check CHECK (biz_tag <> ''),
	CONSTRAINT leaf_alloc_step_check CHECK (step > 0)
) USING heap WITH (fillfactor = 50);

COMMENT ON TABLE @extschema@.leaf_alloc IS 'tags of leaf and what is reserved of their ids; a row a tag';
COMMENT ON COLUMN @extschema@.leaf_alloc.biz_tag IS 'name of the tag, case-sensitive';
COMMENT ON COLUMN @extschema@.leaf_alloc.max_id IS 'the next id that is not yet reserved';
COMMENT ON COLUMN @extschema@.leaf_alloc.step IS 'base length of a segment, in ids';
COMMENT ON COLUMN @extschema@.leaf_alloc.description IS 'for people';
COMMENT ON COLUMN @extschema@.leaf_alloc.update_time IS 'time of the last change, reservations included';

SELECT pg_catalog.pg_extension_config_dump('@extschema@.leaf_alloc', '');

CREATE FUNCTION @extschema@.leaf_alloc_changed() RETURNS trigger
LANGUAGE C AS 'MODULE_PATHNAME', 'leaf_alloc_changed';
REVOKE ALL ON FUNCTION @extschema@.leaf_alloc_changed() FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.leaf_alloc_changed() IS 'sets update_time, and makes a committed change of a tag act on the whole server';

CREATE TRIGGER leaf_alloc_touch BEFORE INSERT OR UPDATE ON @extschema@.leaf_alloc
	FOR EACH ROW EXECUTE FUNCTION @extschema@.leaf_alloc_changed();
CREATE TRIGGER leaf_alloc_changed AFTER INSERT OR UPDATE OR DELETE ON @extschema@.leaf_alloc
	FOR EACH ROW EXECUTE FUNCTION @extschema@.leaf_alloc_changed();
CREATE TRIGGER leaf_alloc_truncated BEFORE TRUNCATE ON @extschema@.leaf_alloc
	FOR EACH STATEMENT EXECUTE FUNCTION @extschema@.leaf_alloc_changed();
ALTER TABLE @extschema@.leaf_alloc ENABLE ALWAYS TRIGGER leaf_alloc_touch;
ALTER TABLE @extschema@.leaf_alloc ENABLE ALWAYS TRIGGER leaf_alloc_changed;
ALTER TABLE @extschema@.leaf_alloc ENABLE ALWAYS TRIGGER leaf_alloc_truncated;
COMMENT ON TRIGGER leaf_alloc_touch ON @extschema@.leaf_alloc IS 'sets update_time';
COMMENT ON TRIGGER leaf_alloc_changed ON @extschema@.leaf_alloc IS 'drops what the server has cached of the tag, at commit';
COMMENT ON TRIGGER leaf_alloc_truncated ON @extschema@.leaf_alloc IS 'drops what the server has cached of all tags, at commit';

-- Segment ids

CREATE FUNCTION @extschema@.leaf_segment_nextval(tag text) RETURNS bigint
LANGUAGE C VOLATILE PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'leaf_segment_nextval';
COMMENT ON FUNCTION @extschema@.leaf_segment_nextval(text) IS 'next id of a tag';

CREATE FUNCTION @extschema@.leaf_segment_reserve(tag text, count bigint) RETURNS int8range
LANGUAGE C VOLATILE PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'leaf_segment_reserve';
REVOKE ALL ON FUNCTION @extschema@.leaf_segment_reserve(text, bigint) FROM PUBLIC;
COMMENT ON FUNCTION @extschema@.leaf_segment_reserve(text, bigint) IS 'contiguous block of ids of a tag, as [lo,hi)';

CREATE FUNCTION @extschema@.leaf_segment_status(
	OUT biz_tag text,
	OUT next_id bigint,
	OUT segment_start bigint,
	OUT segment_end bigint,
	OUT next_segment_start bigint,
	OUT next_segment_end bigint,
	OUT base_step int,
	OUT step int,
	OUT ids_issued bigint,
	OUT refills bigint,
	OUT waits bigint,
	OUT max_wait_ms float8,
	OUT last_refill_at timestamptz,
	OUT last_refill_ms float8,
	OUT last_error text,
	OUT last_error_at timestamptz)
RETURNS SETOF record
LANGUAGE C VOLATILE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'leaf_segment_status';
REVOKE ALL ON FUNCTION @extschema@.leaf_segment_status() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION @extschema@.leaf_segment_status() TO pg_monitor;
COMMENT ON FUNCTION @extschema@.leaf_segment_status() IS 'tags of this database that the server has cached';

CREATE VIEW @extschema@.leaf_segment_status AS
	SELECT * FROM @extschema@.leaf_segment_status();
REVOKE ALL ON @extschema@.leaf_segment_status FROM PUBLIC;
GRANT SELECT ON @extschema@.leaf_segment_status TO pg_monitor;
COMMENT ON VIEW @extschema@.leaf_segment_status IS 'tags of this database that the server has cached';

CREATE FUNCTION @extschema@.leaf_segment_alarms(
	OUT source text,
	OUT since timestamptz,
	OUT message text,
	OUT hint text)
RETURNS SETOF record
LANGUAGE C VOLATILE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'leaf_segment_alarms';
REVOKE ALL ON FUNCTION @extschema@.leaf_segment_alarms() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION @extschema@.leaf_segment_alarms() TO pg_monitor;
COMMENT ON FUNCTION @extschema@.leaf_segment_alarms() IS 'tags of all databases whose refill fails';

-- Snowflake ids

CREATE FUNCTION @extschema@.leaf_snowflake_nextval() RETURNS bigint
LANGUAGE C VOLATILE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'leaf_snowflake_nextval';
COMMENT ON FUNCTION @extschema@.leaf_snowflake_nextval() IS 'next snowflake id of this server';

CREATE FUNCTION @extschema@.leaf_snowflake_parse(
	id bigint,
	OUT generated_at timestamptz,
	OUT worker_id int,
	OUT sequence int)
LANGUAGE C STABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'leaf_snowflake_parse';
COMMENT ON FUNCTION @extschema@.leaf_snowflake_parse(bigint) IS 'time, worker id and sequence of a snowflake id';

CREATE FUNCTION @extschema@.leaf_snowflake_floor(ts timestamptz) RETURNS bigint
LANGUAGE C STABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'leaf_snowflake_floor';
COMMENT ON FUNCTION @extschema@.leaf_snowflake_floor(timestamptz) IS 'smallest snowflake id of the millisecond of a time';

CREATE FUNCTION @extschema@.leaf_snowflake_status(
	OUT state text,
	OUT reason text,
	OUT detail text,
	OUT worker_id int,
	OUT worker_id_source text,
	OUT node_address text,
	OUT cluster_name text,
	OUT epoch bigint,
	OUT last_id_at timestamptz,
	OUT time_bound timestamptz,
	OUT clock_offset_ms float8,
	OUT clock_backward_events bigint,
	OUT zookeeper_state text,
	OUT last_report_at timestamptz,
	OUT ids_issued bigint)
RETURNS SETOF record
LANGUAGE C VOLATILE PARALLEL SAFE ROWS 1
AS 'MODULE_PATHNAME', 'leaf_snowflake_status';
REVOKE ALL ON FUNCTION @extschema@.leaf_snowflake_status() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION @extschema@.leaf_snowflake_status() TO pg_monitor;
COMMENT ON FUNCTION @extschema@.leaf_snowflake_status() IS 'state of this server as a snowflake node';

CREATE VIEW @extschema@.leaf_snowflake_status AS
	SELECT * FROM @extschema@.leaf_snowflake_status();
REVOKE ALL ON @extschema@.leaf_snowflake_status FROM PUBLIC;
GRANT SELECT ON @extschema@.leaf_snowflake_status TO pg_monitor;
COMMENT ON VIEW @extschema@.leaf_snowflake_status IS 'state of this server as a snowflake node; one row';

CREATE FUNCTION @extschema@.leaf_snowflake_peers(
	OUT node_address text,
	OUT worker_id int,
	OUT last_report_at timestamptz,
	OUT alive boolean,
	OUT clock_offset_ms float8,
	OUT is_self boolean)
RETURNS SETOF record
LANGUAGE C VOLATILE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'leaf_snowflake_peers';
REVOKE ALL ON FUNCTION @extschema@.leaf_snowflake_peers() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION @extschema@.leaf_snowflake_peers() TO pg_monitor;
COMMENT ON FUNCTION @extschema@.leaf_snowflake_peers() IS 'nodes of the cluster as last seen from this server';

CREATE VIEW @extschema@.leaf_snowflake_peers AS
	SELECT * FROM @extschema@.leaf_snowflake_peers();
REVOKE ALL ON @extschema@.leaf_snowflake_peers FROM PUBLIC;
GRANT SELECT ON @extschema@.leaf_snowflake_peers TO pg_monitor;
COMMENT ON VIEW @extschema@.leaf_snowflake_peers IS 'nodes of the cluster as last seen from this server; clock_offset_ms is that node''s clock minus this server''s';

-- Alarms

CREATE FUNCTION @extschema@.leaf_alarm_status(
	OUT source text,
	OUT since timestamptz,
	OUT message text,
	OUT hint text)
RETURNS SETOF record
LANGUAGE C VOLATILE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'leaf_alarm_status';
REVOKE ALL ON FUNCTION @extschema@.leaf_alarm_status() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION @extschema@.leaf_alarm_status() TO pg_monitor;
COMMENT ON FUNCTION @extschema@.leaf_alarm_status() IS 'alarms of the server as a whole';

CREATE VIEW @extschema@.leaf_alarms AS
	SELECT * FROM @extschema@.leaf_alarm_status()
	UNION ALL
	SELECT * FROM @extschema@.leaf_segment_alarms();
REVOKE ALL ON @extschema@.leaf_alarms FROM PUBLIC;
GRANT SELECT ON @extschema@.leaf_alarms TO pg_monitor;
COMMENT ON VIEW @extschema@.leaf_alarms IS 'what is wrong now; empty while all is well';
