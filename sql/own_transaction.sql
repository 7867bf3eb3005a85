--
-- own_transaction: a tag that the caller's own transaction inserted gives ids
-- there at once; a row that it changed keeps nobody waiting without end
-- (G1, G5).
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS leaf;
RESET client_min_messages;
\set VERBOSITY sqlstate
TRUNCATE leaf_alloc;

-- a migration: tag, table, rows, all in one transaction
BEGIN;
INSERT INTO leaf_alloc (biz_tag) VALUES ('migrated');
CREATE TABLE migrated (id bigint PRIMARY KEY DEFAULT leaf_segment_nextval('migrated'), note text);
INSERT INTO migrated (note) VALUES ('one'), ('two') RETURNING id, note;
INSERT INTO migrated (note) SELECT 'more' FROM generate_series(1, 2500);
COMMIT;
SELECT max(id) AS last FROM migrated \gset
SELECT count(*), min(id), max(id) >= 2502 AS plausible FROM migrated;
INSERT INTO migrated (note) VALUES ('after');
SELECT id > :last AS goes_on_above FROM migrated WHERE note = 'after';
SELECT max_id > (SELECT max(id) FROM migrated) AS reserved FROM leaf_alloc WHERE biz_tag = 'migrated';
DROP TABLE migrated;

-- rolled back: the tag is unknown, also to its own session
BEGIN;
INSERT INTO leaf_alloc (biz_tag) VALUES ('undone');
SELECT leaf_segment_nextval('undone');
ROLLBACK;
SELECT leaf_segment_nextval('undone');
SELECT count(*) FROM leaf_segment_status WHERE biz_tag = 'undone';

-- an error is a rollback too
BEGIN;
INSERT INTO leaf_alloc (biz_tag) VALUES ('undone');
SELECT leaf_segment_nextval('undone');
SELECT 1 / 0;
COMMIT;
SELECT leaf_segment_nextval('undone');

-- the ids of a subtransaction that is rolled back do not come again
BEGIN;
INSERT INTO leaf_alloc (biz_tag) VALUES ('sub');
SELECT leaf_segment_nextval('sub');
SAVEPOINT a;
SELECT leaf_segment_nextval('sub');
SAVEPOINT b;
SELECT leaf_segment_nextval('sub') AS last \gset
ROLLBACK TO b;
SELECT leaf_segment_nextval('sub') > :last AS goes_on;
SELECT leaf_segment_nextval('sub') AS last \gset
ROLLBACK TO a;
SELECT leaf_segment_nextval('sub') > :last AS goes_on;
SELECT leaf_segment_nextval('sub') AS last \gset
COMMIT;
SELECT leaf_segment_nextval('sub') > :last AS goes_on;

-- not even if the transaction draws none after the rollback to a savepoint
BEGIN;
INSERT INTO leaf_alloc (biz_tag) VALUES ('sub last');
SAVEPOINT a;
SELECT max(leaf_segment_nextval('sub last')) AS last FROM generate_series(1, 5000) \gset
ROLLBACK TO a;
COMMIT;
SELECT leaf_segment_nextval('sub last') > :last AS goes_on;

-- nor if what was given out last was lower, by the transaction's own wish
BEGIN;
INSERT INTO leaf_alloc (biz_tag) VALUES ('sub lower');
SAVEPOINT a;
SELECT max(leaf_segment_nextval('sub lower')) AS last FROM generate_series(1, 1500) \gset
ROLLBACK TO a;
UPDATE leaf_alloc SET max_id = 2 WHERE biz_tag = 'sub lower';
SELECT leaf_segment_nextval('sub lower');
ROLLBACK TO a;
SELECT leaf_segment_nextval('sub lower') > :last AS goes_on;
COMMIT;

-- the extension is dropped and created again before the commit
BEGIN;
INSERT INTO leaf_alloc (biz_tag) VALUES ('old');
SELECT leaf_segment_nextval('old');
DROP EXTENSION leaf;
CREATE EXTENSION leaf;
INSERT INTO leaf_alloc (biz_tag) VALUES ('new');
SELECT leaf_segment_nextval('new');
COMMIT;
SELECT biz_tag, max_id FROM leaf_alloc;
SELECT leaf_segment_nextval('new');

-- a block, rolled back to a savepoint
BEGIN;
INSERT INTO leaf_alloc (biz_tag) VALUES ('sub block');
SAVEPOINT a;
SELECT upper(leaf_segment_reserve('sub block', 50000)) AS upper \gset
ROLLBACK TO a;
SELECT leaf_segment_nextval('sub block') >= :upper AS goes_on;
SELECT lower(leaf_segment_reserve('sub block', 5)) >= :upper AS goes_on;
COMMIT;
SELECT leaf_segment_nextval('sub block') >= :upper AS goes_on;

-- a tag inserted in a subtransaction
BEGIN;
SAVEPOINT a;
INSERT INTO leaf_alloc (biz_tag) VALUES ('in sub');
SELECT leaf_segment_nextval('in sub');
ROLLBACK TO a;
SELECT leaf_segment_nextval('in sub');
ROLLBACK TO a;
INSERT INTO leaf_alloc (biz_tag, max_id) VALUES ('in sub', 500);
SELECT leaf_segment_nextval('in sub');
RELEASE a;
SELECT leaf_segment_nextval('in sub');
SAVEPOINT b;
SAVEPOINT c;
SELECT leaf_segment_nextval('in sub');
RELEASE c;
ROLLBACK TO b;
SELECT leaf_segment_nextval('in sub') > 502 AS goes_on;
COMMIT;
SELECT leaf_segment_nextval('in sub') > 503 AS goes_on;

-- in a DO block, with an exception handler
\set VERBOSITY terse
DO $$
DECLARE
	first bigint;
	inner_id bigint;
	after bigint;
BEGIN
	INSERT INTO leaf_alloc (biz_tag) VALUES ('do');
	first := leaf_segment_nextval('do');
	BEGIN
		inner_id := leaf_segment_nextval('do');
		RAISE EXCEPTION 'roll back';
	EXCEPTION WHEN raise_exception THEN
		after := leaf_segment_nextval('do');
	END;
	RAISE NOTICE 'first %, rising %', first, first < inner_id AND inner_id < after;
END $$;
\set VERBOSITY sqlstate
SELECT leaf_segment_nextval('do') > 3 AS goes_on;

-- in a function, with the change further up
CREATE FUNCTION draw(tag text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	RETURN leaf_segment_nextval(tag);
END $$;
CREATE FUNCTION make_and_draw(tag text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO leaf_alloc (biz_tag, max_id) VALUES (tag, 100);
	RETURN draw(tag);
END $$;
SELECT make_and_draw('fn');
SELECT draw('fn') > 100 AS goes_on;
BEGIN;
SELECT make_and_draw('fn 2');
SELECT draw('fn 2');
COMMIT;
-- one statement that inserts the tag and draws from it
WITH new AS (SELECT make_and_draw('fn 3') AS id) SELECT id, draw('fn 3') > 100 AS rising FROM new;
DROP FUNCTION draw, make_and_draw;

-- a procedure that commits in between
CREATE PROCEDURE chain() LANGUAGE plpgsql AS $$
DECLARE
	a bigint;
	b bigint;
BEGIN
	INSERT INTO leaf_alloc (biz_tag) VALUES ('chain');
	a := leaf_segment_nextval('chain');
	COMMIT;
	b := leaf_segment_nextval('chain');
	RAISE NOTICE 'rising %', b > a;
	INSERT INTO leaf_alloc (biz_tag) VALUES ('chain 2');
	a := leaf_segment_nextval('chain 2');
	ROLLBACK;
	BEGIN
		b := leaf_segment_nextval('chain 2');
	EXCEPTION WHEN undefined_object THEN
		RAISE NOTICE 'unknown again';
	END;
END $$;
\set VERBOSITY terse
CALL chain();
\set VERBOSITY sqlstate
DROP PROCEDURE chain;

-- in a deferred trigger, that is during commit
CREATE TABLE late (id bigint);
CREATE FUNCTION late_id() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	UPDATE late SET id = leaf_segment_nextval('late') WHERE id IS NULL;
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION late_id();
BEGIN;
INSERT INTO leaf_alloc (biz_tag) VALUES ('late');
INSERT INTO late VALUES (NULL);
COMMIT;
SELECT id FROM late;
SELECT leaf_segment_nextval('late') > 1 AS goes_on;
DROP TABLE late;
DROP FUNCTION late_id;

-- at the higher isolation levels
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM leaf_alloc WHERE biz_tag = 'rr';
INSERT INTO leaf_alloc (biz_tag) VALUES ('rr');
SELECT leaf_segment_nextval('rr') FROM generate_series(1, 2);
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
INSERT INTO leaf_alloc (biz_tag) VALUES ('serializable');
SELECT leaf_segment_nextval('serializable') FROM generate_series(1, 2);
COMMIT;
SELECT leaf_segment_nextval('rr') > 2 AS rr, leaf_segment_nextval('serializable') > 2 AS serializable;

-- the own row, changed again before it commits
BEGIN;
INSERT INTO leaf_alloc (biz_tag) VALUES ('again');
SELECT leaf_segment_nextval('again');
UPDATE leaf_alloc SET max_id = 6000 WHERE biz_tag = 'again';
SELECT leaf_segment_nextval('again');
DELETE FROM leaf_alloc WHERE biz_tag = 'again';
SAVEPOINT a;
SELECT leaf_segment_nextval('again');
ROLLBACK TO a;
INSERT INTO leaf_alloc (biz_tag, max_id) VALUES ('again', 7000);
SELECT leaf_segment_nextval('again');
COMMIT;
SELECT leaf_segment_nextval('again') > 7000 AS goes_on;

-- a committed tag, deleted or truncated by the own transaction, is unknown in it
INSERT INTO leaf_alloc (biz_tag) VALUES ('known');
SELECT leaf_segment_nextval('known');
BEGIN;
DELETE FROM leaf_alloc WHERE biz_tag = 'known';
SELECT leaf_segment_nextval('known');
ROLLBACK;
SELECT leaf_segment_nextval('known') > 1 AS goes_on;
BEGIN;
TRUNCATE leaf_alloc;
SELECT leaf_segment_nextval('known');
ROLLBACK;
SELECT leaf_segment_nextval('known') > 1 AS goes_on;
BEGIN;
DELETE FROM leaf_alloc WHERE biz_tag = 'known';
INSERT INTO leaf_alloc (biz_tag, max_id) VALUES ('known', 8000);
-- not of the new row: a rollback would bring the old one back, and in time it
-- would come to the same ids
SELECT leaf_segment_nextval('known') BETWEEN 2 AND 7999 AS of_the_committed_row;
ROLLBACK;
SELECT leaf_segment_nextval('known') BETWEEN 3 AND 7999 AS goes_on;
BEGIN;
DELETE FROM leaf_alloc WHERE biz_tag = 'known';
INSERT INTO leaf_alloc (biz_tag, max_id) VALUES ('known', 8000);
COMMIT;
SELECT leaf_segment_nextval('known');
BEGIN;
SAVEPOINT a;
DELETE FROM leaf_alloc WHERE biz_tag = 'known';
ROLLBACK TO a;
SELECT leaf_segment_nextval('known') > 8000 AS goes_on;
COMMIT;

-- a committed tag that the own transaction only updated: served from what is
-- in hand, then an error within leaf.wait_timeout
INSERT INTO leaf_alloc (biz_tag, step) VALUES ('held', 100);
SELECT leaf_segment_nextval('held');
SET leaf.wait_timeout = '300ms';
BEGIN;
UPDATE leaf_alloc SET description = 'held' WHERE biz_tag = 'held';
SELECT max(leaf_segment_nextval('held')) FROM generate_series(1, 99);
SELECT leaf_segment_nextval('held');
ROLLBACK;
RESET leaf.wait_timeout;
SELECT leaf_segment_nextval('held') > 100 AS goes_on;

-- ... whose DETAIL says that it is this transaction
CREATE FUNCTION detail_of_wait() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text;
	hint text;
BEGIN
	PERFORM leaf_segment_nextval('held 2');
	RETURN 'no error';
EXCEPTION WHEN lock_not_available THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN CASE WHEN detail ~* 'this (very )?transaction' THEN 'this transaction' ELSE detail END ||
		CASE WHEN hint <> '' THEN ', with a hint' ELSE ', without a hint' END;
END $$;
INSERT INTO leaf_alloc (biz_tag, step) VALUES ('held 2', 100);
SELECT max(leaf_segment_nextval('held 2')) FROM generate_series(1, 5);
SET leaf.wait_timeout = '300ms';
BEGIN;
SELECT 1 FROM leaf_alloc WHERE biz_tag = 'held 2' FOR UPDATE;
SELECT max(leaf_segment_nextval('held 2')) FROM generate_series(1, 95);
SELECT detail_of_wait();
COMMIT;
RESET leaf.wait_timeout;
SELECT detail_of_wait();
DROP FUNCTION detail_of_wait;

-- PREPARE TRANSACTION is refused after a change, as for NOTIFY
BEGIN;
INSERT INTO leaf_alloc (biz_tag) VALUES ('prepared');
PREPARE TRANSACTION 'leaf';
SELECT leaf_segment_nextval('prepared');
BEGIN;
DELETE FROM leaf_alloc WHERE biz_tag = 'known';
PREPARE TRANSACTION 'leaf';
BEGIN;
TRUNCATE leaf_alloc;
PREPARE TRANSACTION 'leaf';
SELECT leaf_segment_nextval('known') > 1 AS goes_on;

-- TRUNCATE, then a tag that was not there before
BEGIN;
TRUNCATE leaf_alloc;
INSERT INTO leaf_alloc (biz_tag) VALUES ('after truncate');
SELECT leaf_segment_nextval('after truncate');
COMMIT;
SELECT leaf_segment_nextval('after truncate') > 1 AS goes_on;

-- through a cursor, across a savepoint and held over the commit
BEGIN;
INSERT INTO leaf_alloc (biz_tag, step) VALUES ('cursor', 3), ('held cursor', 3);
DECLARE c CURSOR FOR SELECT leaf_segment_nextval('cursor') FROM generate_series(1, 20);
FETCH 2 FROM c;
SAVEPOINT a;
FETCH 2 FROM c;
ROLLBACK TO a;
SELECT leaf_segment_nextval('cursor') > 4 AS goes_on;
DECLARE h CURSOR WITH HOLD FOR SELECT leaf_segment_nextval('held cursor') AS id FROM generate_series(1, 6);
FETCH 1 FROM h;
COMMIT;
FETCH LAST FROM h \gset
CLOSE h;
SELECT leaf_segment_nextval('held cursor') > :id AS goes_on;

-- rolled back subtransactions cost the ids that they drew, and no more
CREATE TABLE handled (id bigint, ok boolean CHECK (ok));
BEGIN;
INSERT INTO leaf_alloc (biz_tag, step) VALUES ('handled', 100);
DO $$
BEGIN
	FOR i IN 1..1000 LOOP
		BEGIN
			INSERT INTO handled VALUES (leaf_segment_nextval('handled'), i % 2 = 0);
		EXCEPTION WHEN check_violation THEN
			NULL;
		END;
	END LOOP;
END
$$;
COMMIT;
SELECT count(DISTINCT id), max(id) < 1500 AS few_gaps FROM handled;
SELECT leaf_segment_nextval('handled') > max(id) AS goes_on FROM handled;
DROP TABLE handled;

-- the commit itself fails
CREATE TABLE late_check (id bigint, x int UNIQUE DEFERRABLE INITIALLY DEFERRED);
BEGIN;
INSERT INTO leaf_alloc (biz_tag) VALUES ('failed commit');
INSERT INTO late_check SELECT leaf_segment_nextval('failed commit'), 1 FROM generate_series(1, 2);
COMMIT;
SELECT leaf_segment_nextval('failed commit');
DROP TABLE late_check;

-- the transaction turns read-only before it commits
BEGIN;
INSERT INTO leaf_alloc (biz_tag) VALUES ('read-only');
SAVEPOINT a;
SELECT leaf_segment_nextval('read-only') FROM generate_series(1, 2);
ROLLBACK TO a;
SET TRANSACTION READ ONLY;
COMMIT;
SELECT leaf_segment_nextval('read-only') > 2 AS goes_on;

-- the extension itself comes and goes in the transaction
BEGIN;
INSERT INTO leaf_alloc (biz_tag) VALUES ('dropped');
SELECT leaf_segment_nextval('dropped');
SAVEPOINT a;
DROP EXTENSION leaf;
ROLLBACK TO a;
SELECT leaf_segment_nextval('dropped') > 1 AS goes_on;
COMMIT;
SELECT leaf_segment_nextval('dropped') > 2 AS goes_on;
-- a rollback would bring a tag of the dropped table back, but not a new one
BEGIN;
DROP EXTENSION leaf;
CREATE EXTENSION leaf;
INSERT INTO leaf_alloc (biz_tag, max_id) VALUES ('dropped', 50000), ('fresh', 50000);
SAVEPOINT a;
SELECT leaf_segment_nextval('dropped');
ROLLBACK TO a;
SELECT leaf_segment_nextval('fresh');
ROLLBACK;
SELECT leaf_segment_nextval('dropped') BETWEEN 3 AND 49999 AS goes_on;
BEGIN;
INSERT INTO leaf_alloc (biz_tag) VALUES ('gone');
SELECT leaf_segment_nextval('gone');
DROP EXTENSION leaf;
CREATE EXTENSION leaf;
INSERT INTO leaf_alloc (biz_tag, max_id) VALUES ('dropped', 60000);
COMMIT;
SELECT leaf_segment_nextval('dropped') >= 60000 AS goes_on;
-- of a savepoint only
BEGIN;
SAVEPOINT a;
DROP EXTENSION leaf;
CREATE EXTENSION leaf;
INSERT INTO leaf_alloc (biz_tag, max_id) VALUES ('dropped', 50000);
SAVEPOINT b;
SELECT leaf_segment_nextval('dropped');
ROLLBACK TO a;
SELECT leaf_segment_nextval('dropped') > 60000 AS goes_on;
DELETE FROM leaf_alloc;
INSERT INTO leaf_alloc (biz_tag) VALUES ('fresh');
SELECT leaf_segment_nextval('fresh');
COMMIT;
SELECT leaf_segment_nextval('gone');

TRUNCATE leaf_alloc;
