--
-- errors: every refusal has its documented SQLSTATE, names what it refuses,
-- and says what to do; texts follow PostgreSQL's style (G10).
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS leaf;
RESET client_min_messages;
TRUNCATE leaf_alloc;

-- What a statement reports: SQLSTATE, whether the message holds a text, and
-- whether detail and hint are there.  "style" is a list of what is not as in
-- PostgreSQL's guide.
CREATE FUNCTION refusal(statement text, should_name text,
						OUT code text, OUT names_it boolean, OUT detail boolean,
						OUT hint boolean, OUT style text)
LANGUAGE plpgsql AS $$
DECLARE
	m text;
	d text;
	h text;
BEGIN
	EXECUTE statement;
	code := 'none';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, m = MESSAGE_TEXT,
		d = PG_EXCEPTION_DETAIL, h = PG_EXCEPTION_HINT;
	names_it := strpos(m || ' ' || d || ' ' || h, should_name) > 0;
	detail := d <> '';
	hint := h <> '';
	style := concat_ws(', ',
		CASE WHEN m !~ '^[[:lower:]"]' THEN 'message starts with a capital' END,
		CASE WHEN m ~ '[.!]$' THEN 'message ends with a full stop' END,
		CASE WHEN m ~ '\n' THEN 'message of several lines' END,
		CASE WHEN d <> '' AND d !~ '^[[:upper:]"].*[.]$' THEN 'detail is no sentence' END,
		CASE WHEN h <> '' AND h !~ '^[[:upper:]"].*[.]$' THEN 'hint is no sentence' END);
END $$;

INSERT INTO leaf_alloc (biz_tag, max_id) VALUES ('orders', 1), ('held', 1), ('exhausted', 9223372036854775807);

-- unknown tag
SELECT * FROM refusal($$SELECT leaf_segment_nextval('no such tag')$$, '"no such tag"');
SELECT * FROM refusal($$SELECT leaf_segment_reserve('no such tag', 5)$$, '"no such tag"');
SELECT * FROM refusal($$SELECT leaf_segment_nextval('')$$, '""');
SELECT code, hint, style FROM refusal($$SELECT leaf_segment_nextval(repeat('x', 129))$$, '');
SELECT code, hint, style FROM refusal($$SELECT leaf_segment_nextval(repeat('x', 1000000))$$, '');
-- NULL
SELECT code, style FROM refusal($$SELECT leaf_segment_nextval(NULL)$$, '');
SELECT code, style FROM refusal($$SELECT leaf_segment_reserve(NULL, 1)$$, '');
SELECT code, style FROM refusal($$SELECT leaf_segment_reserve('orders', NULL)$$, '');
-- count
SELECT code, style FROM refusal($$SELECT leaf_segment_reserve('orders', 0)$$, '');
SELECT code, style FROM refusal($$SELECT leaf_segment_reserve('orders', -5)$$, '');
-- a count that is wrong is wrong for an unknown tag too; no tag is NULL first
SELECT code IN ('22023', '42704') AS refused FROM refusal($$SELECT leaf_segment_reserve('no such tag', 0)$$, '');
-- exhausted
SELECT * FROM refusal($$SELECT leaf_segment_nextval('exhausted')$$, '"exhausted"');
SELECT * FROM refusal($$SELECT leaf_segment_reserve('exhausted', 1)$$, '"exhausted"');
SELECT code, names_it, hint, style FROM refusal($$SELECT leaf_segment_reserve('orders', 9223372036854775807)$$, '"orders"');
-- held by the own transaction: who is in the DETAIL
SET leaf.wait_timeout = '200ms';
BEGIN;
SELECT 1 FROM leaf_alloc WHERE biz_tag = 'held' FOR UPDATE;
SELECT * FROM refusal($$SELECT leaf_segment_nextval('held')$$, '"held"');
COMMIT;
RESET leaf.wait_timeout;
SELECT leaf_segment_nextval('held');

-- the error of a tag leaves the others alone, and the server without an alarm
-- that lasts
SELECT leaf_segment_nextval('exhausted');
SELECT leaf_segment_nextval('orders');

-- a row that its owner keeps from being updated gives no ids: what is not
-- written is not reserved (G1, G2)
CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER keep BEFORE UPDATE ON leaf_alloc FOR EACH ROW EXECUTE FUNCTION keep();
ALTER TABLE leaf_alloc ENABLE ALWAYS TRIGGER keep;
INSERT INTO leaf_alloc (biz_tag) VALUES ('kept');
SET leaf.wait_timeout = '500ms';
SELECT * FROM refusal($$SELECT leaf_segment_nextval('kept')$$, '"kept"');
RESET leaf.wait_timeout;
DROP TRIGGER keep ON leaf_alloc;
DROP FUNCTION keep;
SELECT leaf_segment_nextval('kept');

-- a foreign key's lock on the row is in nobody's way, not even the own one
CREATE TABLE of_tag (biz_tag varchar(128) REFERENCES leaf_alloc);
INSERT INTO leaf_alloc (biz_tag) VALUES ('referenced');
BEGIN;
INSERT INTO of_tag VALUES ('referenced');
SELECT leaf_segment_nextval('referenced');
COMMIT;
DROP TABLE of_tag;

-- an owner who takes the table apart gets errors, no more
SET leaf.wait_timeout = '500ms';
BEGIN;
ALTER TABLE leaf_alloc DROP CONSTRAINT leaf_alloc_pkey;
ALTER TABLE leaf_alloc ALTER biz_tag DROP NOT NULL;
SELECT code FROM refusal($$INSERT INTO leaf_alloc (biz_tag) VALUES (NULL)$$, '');
ROLLBACK;
BEGIN;
ALTER TABLE leaf_alloc DROP CONSTRAINT leaf_alloc_biz_tag_check;
SELECT code FROM refusal($$INSERT INTO leaf_alloc (biz_tag) VALUES ('')$$, '');
ROLLBACK;
BEGIN;
ALTER TABLE leaf_alloc ALTER max_id TYPE text;
SELECT code FROM refusal($$INSERT INTO leaf_alloc (biz_tag) VALUES ('t')$$, '');
ROLLBACK;
BEGIN;
ALTER TABLE leaf_alloc DROP COLUMN update_time;
SELECT code FROM refusal($$SELECT leaf_segment_reserve('kept', 100000)$$, '');
ROLLBACK;
ALTER TABLE leaf_alloc DROP CONSTRAINT leaf_alloc_step_check;
UPDATE leaf_alloc SET step = -5 WHERE biz_tag = 'kept';
SELECT * FROM refusal($$SELECT leaf_segment_nextval('kept')$$, '"kept"');
UPDATE leaf_alloc SET step = 10 WHERE biz_tag = 'kept';
ALTER TABLE leaf_alloc ADD CONSTRAINT leaf_alloc_step_check CHECK (step > 0);
RESET leaf.wait_timeout;
SELECT leaf_segment_nextval('kept') > 1 AS goes_on;

-- read-only transaction: as nextval says it
\set VERBOSITY sqlstate
CREATE SEQUENCE core;
BEGIN READ ONLY;
SELECT nextval('core');
ROLLBACK;
BEGIN READ ONLY;
SELECT leaf_segment_nextval('orders');
ROLLBACK;
\set VERBOSITY default
BEGIN READ ONLY;
SELECT leaf_segment_nextval('orders');
ROLLBACK;
DROP SEQUENCE core;

DROP FUNCTION refusal;
TRUNCATE leaf_alloc;
