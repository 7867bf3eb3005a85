-- Triggers that the owner of an allocation table hangs on it.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS leaf;
RESET client_min_messages;
\set VERBOSITY sqlstate
TRUNCATE leaf_alloc;

-- one that puts max_id back is not believed (G1)
CREATE FUNCTION put_back() RETURNS trigger LANGUAGE plpgsql
	AS 'BEGIN NEW.max_id := OLD.max_id; RETURN NEW; END';
CREATE TRIGGER put_back BEFORE UPDATE ON leaf_alloc FOR EACH ROW EXECUTE FUNCTION put_back();
INSERT INTO leaf_alloc (biz_tag, step) VALUES ('t', 3);
SELECT leaf_segment_nextval('t');
ALTER TABLE leaf_alloc ENABLE ALWAYS TRIGGER put_back;
BEGIN;
INSERT INTO leaf_alloc (biz_tag) VALUES ('own');
SELECT leaf_segment_nextval('own');
ROLLBACK;
DELETE FROM leaf_alloc;
INSERT INTO leaf_alloc (biz_tag, step) VALUES ('u', 3);
SET leaf.wait_timeout = '300ms';
SELECT leaf_segment_nextval('u');
SELECT last_error FROM leaf_segment_status WHERE biz_tag = 'u';
DROP TRIGGER put_back ON leaf_alloc;
RESET leaf.wait_timeout;
SELECT leaf_segment_nextval('u');

-- one that draws ids itself, in the transaction's own reservation and in the worker's
CREATE TABLE audit (id bigint DEFAULT leaf_segment_nextval('audit'), tag text);
CREATE FUNCTION note_change() RETURNS trigger LANGUAGE plpgsql
	AS 'BEGIN INSERT INTO public.audit (tag) VALUES (NEW.biz_tag); RETURN NEW; END';
CREATE TRIGGER note_change AFTER UPDATE ON leaf_alloc FOR EACH ROW
	WHEN (NEW.biz_tag <> 'audit') EXECUTE FUNCTION note_change();
ALTER TABLE leaf_alloc ENABLE ALWAYS TRIGGER note_change;
BEGIN;
INSERT INTO leaf_alloc (biz_tag) VALUES ('audit'), ('own');
SELECT leaf_segment_nextval('own');
ROLLBACK;
SELECT current_user = session_user AS same, current_setting('session_replication_role');
INSERT INTO leaf_alloc (biz_tag) VALUES ('audit');
INSERT INTO leaf_alloc (biz_tag) VALUES ('w');
SELECT leaf_segment_nextval('w');
SELECT count(*) > 0 AS audited FROM audit WHERE tag = 'w';
DROP TRIGGER note_change ON leaf_alloc;

-- the extension's own trigger function in another place
CREATE TRIGGER statement AFTER INSERT ON leaf_alloc EXECUTE FUNCTION leaf_alloc_changed();
INSERT INTO leaf_alloc (biz_tag) VALUES ('v');
DROP TRIGGER statement ON leaf_alloc;
CREATE TRIGGER elsewhere AFTER INSERT ON audit FOR EACH ROW EXECUTE FUNCTION leaf_alloc_changed();
INSERT INTO audit DEFAULT VALUES;

-- a change of max_id by ALTER TABLE, for which no trigger fires
INSERT INTO leaf_alloc (biz_tag) VALUES ('altered');
SELECT leaf_segment_nextval('altered');
ALTER TABLE leaf_alloc ALTER max_id TYPE bigint USING max_id + 100000;
SELECT leaf_segment_nextval('altered') > 100000 AS at_once;

DROP TABLE audit;
DROP FUNCTION put_back(), note_change();
TRUNCATE leaf_alloc;
