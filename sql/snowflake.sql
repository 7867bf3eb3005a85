-- Snowflake ids as one session sees them.  The server has worker id 5.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS leaf;
RESET client_min_messages;
SET timezone = 'UTC';
\set SHOW_CONTEXT never

-- as a column default: positive, increasing, this worker's, of now
CREATE TABLE event (id bigint PRIMARY KEY DEFAULT leaf_snowflake_nextval(), n int);
INSERT INTO event (n) SELECT g FROM generate_series(1, 10000) g;
SELECT count(DISTINCT id), bool_and(id > 0) FROM event;
SELECT count(*) AS out_of_order
	FROM (SELECT id <= lag(id) OVER (ORDER BY n) AS bad FROM event) e WHERE bad;
SELECT DISTINCT p.worker_id, p.generated_at BETWEEN now() - interval '1 minute' AND clock_timestamp() AS just_now
	FROM event, leaf_snowflake_parse(id) p;

-- a millisecond begins in 0..99 and goes on by one
SELECT max(first) BETWEEN 1 AND 99 AS begins_at_random, bool_and(is_next) AS goes_on
	FROM (SELECT min(p.sequence) AS first, count(*) = max(p.sequence) - min(p.sequence) + 1 AS is_next
		FROM event, leaf_snowflake_parse(id) p GROUP BY p.generated_at) ms;

-- what Leaf's own service makes and reads: (ms - epoch) << 22 | worker << 12 | sequence
SELECT * FROM leaf_snowflake_parse(((1483200000000 - 1288834974657) << 22) | (1023 << 12) | 4095);
SELECT * FROM leaf_snowflake_parse(815231500943462471);
SELECT * FROM leaf_snowflake_parse(0);
SELECT * FROM leaf_snowflake_parse(9223372036854775807);
SELECT id = (extract(epoch FROM generated_at) * 1000 - 1288834974657)::bigint << 22 | (worker_id << 12) | sequence AS round_trip
	FROM (SELECT id FROM event ORDER BY id LIMIT 1) e, leaf_snowflake_parse(id);
SELECT * FROM leaf_snowflake_parse(NULL);
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM leaf_snowflake_parse(-1);
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM leaf_snowflake_parse(-9223372036854775808);
\echo :LAST_ERROR_SQLSTATE

-- the smallest id of a time
SELECT leaf_snowflake_floor('2010-11-04 01:42:54.657+00');
SELECT leaf_snowflake_floor('2010-11-04 01:42:54.658+00');
SELECT leaf_snowflake_floor('2010-11-04 01:42:54.658999+00');
SELECT generated_at, worker_id, sequence
	FROM leaf_snowflake_parse(leaf_snowflake_floor('2026-01-01'));
SELECT leaf_snowflake_floor('2080-07-10 17:30:30.208+00') = 9223372036850581504 AS last_millisecond;
SELECT leaf_snowflake_floor('2080-07-10 17:30:30.209+00');
\echo :LAST_ERROR_SQLSTATE
SELECT leaf_snowflake_floor('2010-11-04 01:42:54.656+00');
\echo :LAST_ERROR_SQLSTATE
SELECT leaf_snowflake_floor('1066-10-14');
SELECT leaf_snowflake_floor('infinity');
\echo :LAST_ERROR_SQLSTATE
SELECT leaf_snowflake_floor('-infinity');
SELECT leaf_snowflake_floor(NULL);
\echo :LAST_ERROR_SQLSTATE

-- ids made in [a, b) lie between the floors of a and b
SELECT date_trunc('milliseconds', clock_timestamp()) AS a \gset
INSERT INTO event (n) SELECT g FROM generate_series(10001, 20000) g;
SELECT date_trunc('milliseconds', clock_timestamp()) + interval '1 ms' AS b \gset
SELECT min(n), max(n), count(*) FROM event
	WHERE id >= leaf_snowflake_floor(:'a') AND id < leaf_snowflake_floor(:'b');

-- through the primary key
ANALYZE event;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM event
	WHERE id >= leaf_snowflake_floor('2026-01-01') AND id < leaf_snowflake_floor('2026-01-02');
RESET enable_bitmapscan;

-- in a read-only transaction
BEGIN READ ONLY;
SELECT leaf_snowflake_nextval() > 0 AS ok;
COMMIT;

-- not rolled back
BEGIN;
SELECT leaf_snowflake_nextval() AS lost \gset
ROLLBACK;
SELECT leaf_snowflake_nextval() > :lost AS ok;

-- in parallel workers
CREATE TABLE many AS SELECT g FROM generate_series(1, 50000) g;
ALTER TABLE many SET (parallel_workers = 2);
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET parallel_leader_participation = off;
EXPLAIN (COSTS OFF, VERBOSE) SELECT leaf_snowflake_nextval() AS id FROM many;
SELECT count(*), count(DISTINCT id) FROM (SELECT leaf_snowflake_nextval() AS id FROM many) m;
RESET parallel_leader_participation;

-- how the functions are declared
SELECT proname, provolatile, proparallel, proisstrict, prosecdef
	FROM pg_proc WHERE proname LIKE 'leaf_snowflake%' ORDER BY proname;

-- the views
SELECT state, reason, detail, worker_id, worker_id_source, cluster_name, epoch, zookeeper_state,
	clock_offset_ms, clock_backward_events, ids_issued >= 70000 AS ids_ok,
	last_id_at <= clock_timestamp() AND last_id_at > now() - interval '1 minute' AS last_id_ok,
	time_bound > last_id_at AS bound_ok, last_report_at <= clock_timestamp() AS report_ok,
	node_address LIKE '%:' || current_setting('port') AS address_ok
	FROM leaf_snowflake_status;
SELECT worker_id, alive, clock_offset_ms, is_self FROM leaf_snowflake_peers;
SELECT * FROM leaf_alarms;

-- who may see them
CREATE ROLE leaf_nobody;
CREATE ROLE leaf_watcher IN ROLE pg_monitor;
SET ROLE leaf_nobody;
SELECT leaf_snowflake_nextval() > 0 AS ok;
SELECT * FROM leaf_snowflake_status;
SELECT * FROM leaf_snowflake_status();
SELECT * FROM leaf_snowflake_peers;
SELECT * FROM leaf_alarms;
SELECT name FROM pg_settings WHERE name IN ('leaf.peers', 'leaf.zookeeper_auth');
SET ROLE leaf_watcher;
SELECT state FROM leaf_snowflake_status;
SELECT worker_id FROM leaf_snowflake_peers;
SELECT * FROM leaf_alarms;
RESET ROLE;
DROP ROLE leaf_nobody, leaf_watcher;

-- settings that only a start can change
SET leaf.worker_id = 6;
SET leaf.epoch = '0';
SET leaf.worker_id_source = 'none';

-- another database of the server shares the generator: the extension in another schema here
SELECT leaf_snowflake_nextval() AS before \gset
DROP TABLE event, many;
DROP EXTENSION leaf;
CREATE SCHEMA ids;
CREATE EXTENSION leaf SCHEMA ids;
SELECT ids.leaf_snowflake_nextval() > :before AS ok;
DROP EXTENSION leaf;
DROP SCHEMA ids;
