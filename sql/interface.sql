--
-- interface: names, types, defaults and labels of everything that segments
-- install, as the documentation promises them (G10), seen from a schema
-- other than public.
--
SET client_min_messages = warning;
DROP EXTENSION IF EXISTS leaf CASCADE;
CREATE SCHEMA ids;
RESET client_min_messages;
\set VERBOSITY sqlstate

CREATE EXTENSION leaf SCHEMA ids;

SELECT extversion, extnamespace::regnamespace, extrelocatable
FROM pg_extension WHERE extname = 'leaf';

-- not relocatable afterwards
ALTER EXTENSION leaf SET SCHEMA public;

-- the rows of the table are part of a dump
SELECT 'ids.leaf_alloc'::regclass = ANY (extconfig) AS rows_are_dumped,
       (SELECT count(*) FROM unnest(extcondition) AS c WHERE c <> '') AS conditions
FROM pg_extension WHERE extname = 'leaf';

-- the table
SELECT attname, format_type(atttypid, atttypmod) AS type, attnotnull,
       pg_get_expr(adbin, adrelid) AS default
FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
WHERE attrelid = 'ids.leaf_alloc'::regclass AND attnum > 0
ORDER BY attnum;

SELECT contype, pg_get_constraintdef(oid)
FROM pg_constraint
WHERE conrelid = 'ids.leaf_alloc'::regclass AND contype = 'p';

-- the functions
SELECT proname, pg_get_function_arguments(oid) AS arguments,
       pg_get_function_result(oid) AS result, provolatile, proparallel,
       proisstrict, prosecdef
FROM pg_proc
WHERE pronamespace = 'ids'::regnamespace
      AND proname IN ('leaf_segment_nextval', 'leaf_segment_reserve')
ORDER BY proname;

-- the views
SELECT attrelid::regclass AS view, attname, format_type(atttypid, atttypmod) AS type
FROM pg_attribute
WHERE attrelid IN ('ids.leaf_segment_status'::regclass, 'ids.leaf_alarms'::regclass)
      AND attnum > 0
ORDER BY attrelid::regclass::text, attnum;

-- every object has a comment, and so has the extension
SELECT pg_describe_object(d.classid, d.objid, 0) AS object_without_comment
FROM pg_depend AS d
WHERE d.deptype = 'e' AND d.refclassid = 'pg_extension'::regclass
      AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'leaf')
      AND d.classid IN ('pg_class'::regclass, 'pg_proc'::regclass)
      AND obj_description(d.objid, d.classid::regclass::name) IS NULL
ORDER BY 1;
SELECT obj_description(oid, 'pg_extension') IS NOT NULL AS extension_has_comment
FROM pg_extension WHERE extname = 'leaf';

-- nothing is installed outside the schema
SELECT pg_describe_object(d.classid, d.objid, 0) AS object_elsewhere
FROM pg_depend AS d
WHERE d.deptype = 'e' AND d.refclassid = 'pg_extension'::regclass
      AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'leaf')
      AND ((d.classid = 'pg_class'::regclass
            AND NOT EXISTS (SELECT FROM pg_class WHERE oid = d.objid AND relnamespace = 'ids'::regnamespace))
           OR (d.classid = 'pg_proc'::regclass
               AND NOT EXISTS (SELECT FROM pg_proc WHERE oid = d.objid AND pronamespace = 'ids'::regnamespace)));

-- the settings
SELECT name, vartype, boot_val, unit, context, min_val, max_val
FROM pg_settings
WHERE name IN ('leaf.max_tags', 'leaf.wait_timeout', 'leaf.prefetch_threshold',
               'leaf.segment_duration', 'leaf.max_step')
ORDER BY name;
SELECT count(*) AS without_description
FROM pg_settings WHERE name LIKE 'leaf.%' AND coalesce(short_desc, '') = '';
SET leaf.max_tags = 10;
SET leaf.prefetch_threshold = 50;
SET leaf.wait_timeout = -1;
SET leaf.wait_timeout = '2s';
SHOW leaf.wait_timeout;
RESET leaf.wait_timeout;
-- the prefix is taken, so that a misspelt setting is an error
SET leaf.no_such_setting = 1;

-- rules of the table
INSERT INTO ids.leaf_alloc (biz_tag) VALUES ('');
INSERT INTO ids.leaf_alloc (biz_tag) VALUES (NULL);
INSERT INTO ids.leaf_alloc (biz_tag, step) VALUES ('step zero', 0);
INSERT INTO ids.leaf_alloc (biz_tag, step) VALUES ('step negative', -1);
INSERT INTO ids.leaf_alloc (biz_tag, step) VALUES ('step null', NULL);
INSERT INTO ids.leaf_alloc (biz_tag, max_id) VALUES ('max_id null', NULL);
INSERT INTO ids.leaf_alloc (biz_tag) VALUES (repeat('x', 129));
INSERT INTO ids.leaf_alloc (biz_tag, description) VALUES ('d', repeat('x', 257));
INSERT INTO ids.leaf_alloc (biz_tag, description)
VALUES (repeat('x', 128), repeat('x', 256));
INSERT INTO ids.leaf_alloc (biz_tag) VALUES (repeat('x', 128));
SELECT count(*) FROM ids.leaf_alloc;
DELETE FROM ids.leaf_alloc;

-- defaults, and a tag is nothing but its row
INSERT INTO ids.leaf_alloc (biz_tag) VALUES ('orders'), ('Orders');
SELECT biz_tag, max_id, step, description FROM ids.leaf_alloc ORDER BY biz_tag COLLATE "C";
SELECT ids.leaf_segment_nextval('orders') AS orders FROM generate_series(1, 3);
SELECT ids.leaf_segment_nextval('Orders') AS "Orders";

-- update_time is set by every insert and every update, whatever was written
INSERT INTO ids.leaf_alloc (biz_tag, update_time) VALUES ('time', '2001-01-01');
SELECT update_time > now() - interval '1 hour' AS by_insert
FROM ids.leaf_alloc WHERE biz_tag = 'time';
UPDATE ids.leaf_alloc SET update_time = '2001-01-01' WHERE biz_tag = 'time';
SELECT update_time > now() - interval '1 hour' AS by_update
FROM ids.leaf_alloc WHERE biz_tag = 'time';
SELECT update_time AS before_refill FROM ids.leaf_alloc WHERE biz_tag = 'time' \gset
SELECT ids.leaf_segment_nextval('time');
SELECT update_time > :'before_refill' AS by_refill
FROM ids.leaf_alloc WHERE biz_tag = 'time';

-- max_id is the next id that is not reserved
SELECT biz_tag, max_id FROM ids.leaf_alloc WHERE biz_tag = 'orders';

-- a block of ids is one range that excludes its upper end
INSERT INTO ids.leaf_alloc (biz_tag) VALUES ('block');
SELECT r, lower(r), upper(r), lower_inc(r), upper_inc(r)
FROM ids.leaf_segment_reserve('block', 1) AS r;
SELECT ids.leaf_segment_reserve('block', 10);
SELECT ids.leaf_segment_nextval('block');
SELECT pg_typeof(ids.leaf_segment_reserve('block', 10));
SELECT pg_typeof(ids.leaf_segment_nextval('block'));

-- NULL is an error, not NULL
SELECT ids.leaf_segment_nextval(NULL);
SELECT ids.leaf_segment_reserve(NULL, 1);
SELECT ids.leaf_segment_reserve('block', NULL);
SELECT ids.leaf_segment_reserve(NULL, NULL);

-- refused in a read-only transaction, for a tag that is in hand and for one that is not
INSERT INTO ids.leaf_alloc (biz_tag) VALUES ('cold');
BEGIN READ ONLY;
SELECT ids.leaf_segment_nextval('orders');
ROLLBACK;
BEGIN READ ONLY;
SELECT ids.leaf_segment_nextval('cold');
ROLLBACK;
BEGIN READ ONLY;
SELECT ids.leaf_segment_reserve('orders', 5);
ROLLBACK;
SET default_transaction_read_only = on;
SELECT ids.leaf_segment_nextval('orders');
RESET default_transaction_read_only;
SELECT ids.leaf_segment_nextval('orders');

-- the status view: one row a cached tag of this database
SELECT biz_tag, next_id, segment_start, segment_end, next_segment_start,
       next_segment_end, base_step, step >= base_step AS step, ids_issued, refills, waits,
       max_wait_ms >= 0 AS max_wait_ms, last_refill_at > now() - interval '1 hour' AS last_refill_at,
       last_refill_ms >= 0 AS last_refill_ms, last_error, last_error_at
FROM ids.leaf_segment_status WHERE biz_tag IN ('orders', 'Orders')
ORDER BY biz_tag COLLATE "C";
SELECT count(*) AS never_asked_for FROM ids.leaf_segment_status WHERE biz_tag = 'cold';
SELECT count(*) AS alarms FROM ids.leaf_alarms;

-- a default that is called from a parallel plan stays in the leader
CREATE TABLE many AS SELECT g FROM generate_series(1, 20000) AS g;
ANALYZE many;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SELECT count(DISTINCT id) FROM (SELECT ids.leaf_segment_nextval('block') AS id FROM many) AS s;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;

-- gone with the extension; a new one knows nothing of the old one's tags
DROP TABLE many;
DROP EXTENSION leaf;
CREATE EXTENSION leaf SCHEMA ids;
SELECT count(*) FROM ids.leaf_alloc;
SELECT count(*) FROM ids.leaf_segment_status;
SELECT ids.leaf_segment_nextval('orders');
INSERT INTO ids.leaf_alloc (biz_tag, max_id) VALUES ('orders', 70);
SELECT ids.leaf_segment_nextval('orders');
DROP EXTENSION leaf;
DROP SCHEMA ids;
