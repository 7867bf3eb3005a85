--
-- changes: a committed change of leaf_alloc holds from the next id on (G1,
-- G10), however it is written.
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS leaf;
RESET client_min_messages;
\set VERBOSITY sqlstate

SELECT leaf_segment_nextval('c');
INSERT INTO leaf_alloc (biz_tag, step) VALUES ('c', 100);
SELECT leaf_segment_nextval('c') FROM generate_series(1, 3);

-- max_id, up and down
UPDATE leaf_alloc SET max_id = 5000 WHERE biz_tag = 'c';
SELECT leaf_segment_nextval('c') FROM generate_series(1, 2);
UPDATE leaf_alloc SET max_id = 300 WHERE biz_tag = 'c';
SELECT leaf_segment_nextval('c') FROM generate_series(1, 2);

-- step: holds at the next refill, and no id comes twice.
UPDATE leaf_alloc SET step = 7 WHERE biz_tag = 'c';
SELECT leaf_segment_nextval('c') > 301 AS goes_on;
SELECT base_step FROM leaf_segment_status WHERE biz_tag = 'c';
SELECT segment_end - segment_start AS length FROM leaf_segment_status WHERE biz_tag = 'c';
SELECT max_id > 300 AS above FROM leaf_alloc WHERE biz_tag = 'c';

-- what changes nothing may cost ids, but gives none twice
SELECT leaf_segment_nextval('c') AS before \gset
UPDATE leaf_alloc SET description = 'same' WHERE biz_tag = 'c';
SELECT leaf_segment_nextval('c') > :before AS goes_on;

-- a change that is rolled back is none
BEGIN;
UPDATE leaf_alloc SET max_id = 100000 WHERE biz_tag = 'c';
ROLLBACK;
SELECT leaf_segment_nextval('c') < 100000 AS goes_on;
BEGIN;
SAVEPOINT s;
DELETE FROM leaf_alloc WHERE biz_tag = 'c';
ROLLBACK TO s;
COMMIT;
SELECT leaf_segment_nextval('c') < 100000 AS goes_on;

-- DELETE, then INSERT again: nothing of the old range is left
DELETE FROM leaf_alloc WHERE biz_tag = 'c';
SELECT leaf_segment_nextval('c');
SELECT count(*) FROM leaf_segment_status WHERE biz_tag = 'c';
INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('c', 40, 10);
SELECT leaf_segment_nextval('c') FROM generate_series(1, 25);

-- in one transaction
BEGIN;
DELETE FROM leaf_alloc WHERE biz_tag = 'c';
INSERT INTO leaf_alloc (biz_tag, max_id) VALUES ('c', 9000);
COMMIT;
SELECT leaf_segment_nextval('c');

-- a tag that gets another name
UPDATE leaf_alloc SET biz_tag = 'd', max_id = 10000 WHERE biz_tag = 'c';
SELECT leaf_segment_nextval('c');
SELECT leaf_segment_nextval('d');
UPDATE leaf_alloc SET biz_tag = 'c', max_id = 11000 WHERE biz_tag = 'd';
SELECT leaf_segment_nextval('d');
SELECT leaf_segment_nextval('c');

-- TRUNCATE
INSERT INTO leaf_alloc (biz_tag) VALUES ('other');
SELECT leaf_segment_nextval('other');
TRUNCATE leaf_alloc;
SELECT leaf_segment_nextval('c');
SELECT leaf_segment_nextval('other');
INSERT INTO leaf_alloc (biz_tag, max_id) VALUES ('c', 20000);
SELECT leaf_segment_nextval('c');
BEGIN;
TRUNCATE leaf_alloc;
ROLLBACK;
SELECT leaf_segment_nextval('c') > 20000 AS goes_on;
BEGIN;
TRUNCATE leaf_alloc;
INSERT INTO leaf_alloc (biz_tag, max_id) VALUES ('c', 30000);
COMMIT;
SELECT leaf_segment_nextval('c');

-- COPY, ON CONFLICT, MERGE, data-modifying WITH, prepared statement
COPY leaf_alloc (biz_tag, max_id) FROM stdin;
copied	77
\.
SELECT leaf_segment_nextval('copied');
INSERT INTO leaf_alloc (biz_tag, max_id) VALUES ('c', 1), ('conflict', 5)
ON CONFLICT (biz_tag) DO UPDATE SET max_id = 40000;
SELECT leaf_segment_nextval('c'), leaf_segment_nextval('conflict');
MERGE INTO leaf_alloc AS a USING (VALUES ('c'), ('merged')) AS v (tag) ON a.biz_tag = v.tag
WHEN MATCHED THEN UPDATE SET max_id = 50000
WHEN NOT MATCHED THEN INSERT (biz_tag, max_id) VALUES (v.tag, 6);
SELECT leaf_segment_nextval('c'), leaf_segment_nextval('merged');
MERGE INTO leaf_alloc AS a USING (VALUES ('merged')) AS v (tag) ON a.biz_tag = v.tag
WHEN MATCHED THEN DELETE;
SELECT leaf_segment_nextval('merged');
WITH gone AS (DELETE FROM leaf_alloc WHERE biz_tag = 'copied' RETURNING 1) SELECT * FROM gone;
SELECT leaf_segment_nextval('copied');
PREPARE raise (bigint) AS UPDATE leaf_alloc SET max_id = $1 WHERE biz_tag = 'c';
EXECUTE raise(60000);
SELECT leaf_segment_nextval('c');
EXECUTE raise(62500);
SELECT leaf_segment_nextval('c');
DEALLOCATE raise;

-- as a subscription's apply does: with origin triggers off
SET session_replication_role = replica;
UPDATE leaf_alloc SET max_id = 70000 WHERE biz_tag = 'c';
INSERT INTO leaf_alloc (biz_tag, max_id) VALUES ('replicated', 8);
RESET session_replication_role;
SELECT leaf_segment_nextval('c'), leaf_segment_nextval('replicated');
SET session_replication_role = replica;
DELETE FROM leaf_alloc WHERE biz_tag = 'replicated';
RESET session_replication_role;
SELECT leaf_segment_nextval('replicated');

-- maintenance of the table changes no tag
VACUUM FULL leaf_alloc;
SELECT leaf_segment_nextval('c') > 70000 AS goes_on;
REINDEX TABLE leaf_alloc;
SELECT leaf_segment_nextval('c') > 70000 AS goes_on;
SELECT count(DISTINCT leaf_segment_nextval('c')) FROM generate_series(1, 5000);

-- further columns do not matter, nor do rows of a table that inherits
ALTER TABLE leaf_alloc ADD COLUMN owner text;
SELECT count(DISTINCT leaf_segment_nextval('c')) FROM generate_series(1, 5000);
ALTER TABLE leaf_alloc DROP COLUMN owner;
SELECT count(DISTINCT leaf_segment_nextval('c')) FROM generate_series(1, 5000);
CREATE TABLE heir () INHERITS (leaf_alloc);
INSERT INTO heir (biz_tag, max_id) VALUES ('c', 1), ('heir only', 1);
INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('heir', 1, 10);
INSERT INTO heir (biz_tag, max_id) VALUES ('heir', 7000);
SELECT min(id), max(id) FROM (SELECT leaf_segment_nextval('heir') AS id FROM generate_series(1, 300)) AS s;
SELECT leaf_segment_nextval('heir only');
SELECT max_id FROM heir ORDER BY 1;
DROP TABLE heir;

-- a table that is not as it was is refused, with the column
\set VERBOSITY default
ALTER TABLE leaf_alloc RENAME COLUMN max_id TO maximum;
SELECT leaf_segment_reserve('c', 1000000);
ALTER TABLE leaf_alloc RENAME COLUMN maximum TO max_id;
\set VERBOSITY sqlstate
SELECT leaf_segment_nextval('c') > 70000 AS goes_on;

TRUNCATE leaf_alloc;
