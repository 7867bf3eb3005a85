--
-- limits: ids at the end of bigint, the longest step, blocks of any size.
-- The right ids or a clear error, never a wrap (G1, G10).
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS leaf;
RESET client_min_messages;
\set VERBOSITY sqlstate
TRUNCATE leaf_alloc;

-- the last id is 2^63 - 2: max_id must be able to name the next one
INSERT INTO leaf_alloc (biz_tag, max_id) VALUES
	('three left', 9223372036854775804),
	('one left', 9223372036854775806),
	('none left', 9223372036854775807);
SELECT leaf_segment_nextval('three left');
SELECT leaf_segment_nextval('three left');
SELECT leaf_segment_nextval('three left');
SELECT leaf_segment_nextval('three left');
SELECT leaf_segment_nextval('three left');
SELECT leaf_segment_nextval('one left');
SELECT leaf_segment_nextval('one left');
SELECT leaf_segment_nextval('none left');
SELECT leaf_segment_reserve('none left', 1);
SELECT biz_tag, max_id FROM leaf_alloc ORDER BY 1;
-- exhausted is not for ever
UPDATE leaf_alloc SET max_id = 10 WHERE biz_tag = 'none left';
SELECT leaf_segment_nextval('none left');

-- the same with the longest step
INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES
	('long step', 1, 2147483647),
	('long step at the end', 9223372036854775806 - 5, 2147483647);
SELECT leaf_segment_nextval('long step');
SELECT max_id FROM leaf_alloc WHERE biz_tag = 'long step';
SELECT count(*), max(id) FROM (SELECT leaf_segment_nextval('long step at the end') AS id FROM generate_series(1, 6)) AS s;
SELECT leaf_segment_nextval('long step at the end');

-- the shortest step
INSERT INTO leaf_alloc (biz_tag, step) VALUES ('short step', 1);
SELECT count(DISTINCT id), min(id), max(id) FROM (SELECT leaf_segment_nextval('short step') AS id FROM generate_series(1, 300)) AS s;

-- counts that are none
INSERT INTO leaf_alloc (biz_tag) VALUES ('count');
SELECT leaf_segment_reserve('count', 0);
SELECT leaf_segment_reserve('count', -1);
SELECT leaf_segment_reserve('count', -9223372036854775808);
SELECT leaf_segment_nextval('count');

-- blocks within the segment, across its end, longer than it; all rising
INSERT INTO leaf_alloc (biz_tag, step) VALUES ('block', 100);
SELECT leaf_segment_reserve('block', 1);
SELECT leaf_segment_reserve('block', 99);
SELECT leaf_segment_nextval('block') >= 101 AS above;
SELECT upper(leaf_segment_reserve('block', 60)) AS upper \gset
SELECT lower(r) >= :upper AS above, upper(r) - lower(r) AS length, upper(r) AS upper
FROM leaf_segment_reserve('block', 60) AS r \gset
\echo :above :length
SELECT lower(r) >= :upper AS above, upper(r) - lower(r) AS length, upper(r) AS upper
FROM leaf_segment_reserve('block', 101) AS r \gset
\echo :above :length
SELECT lower(r) >= :upper AS above, upper(r) - lower(r) AS length, upper(r) AS upper
FROM leaf_segment_reserve('block', 5000000000000) AS r \gset
\echo :above :length
SELECT leaf_segment_nextval('block') >= :upper AS above;
SELECT max_id > :upper AS reserved FROM leaf_alloc WHERE biz_tag = 'block';

-- no two of many blocks and single ids touch
CREATE TABLE taken (r int8range, n int GENERATED ALWAYS AS IDENTITY);
DO $$
DECLARE
	id bigint;
BEGIN
	FOR i IN 1 .. 400 LOOP
		IF i % 3 = 0 THEN
			id := leaf_segment_nextval('block');
			INSERT INTO taken VALUES (int8range(id, id + 1));
		ELSE
			INSERT INTO taken VALUES (leaf_segment_reserve('block', i * 7 % 230 + 1));
		END IF;
	END LOOP;
END $$;
SELECT count(*) AS taken,
       count(*) FILTER (WHERE lower(r) < previous) AS not_above_the_one_before
FROM (SELECT r, lag(upper(r)) OVER (ORDER BY n) AS previous FROM taken) AS s;
SELECT count(*) AS wrong_length FROM taken
WHERE upper(r) - lower(r) <> CASE WHEN n % 3 = 0 THEN 1 ELSE n * 7 % 230 + 1 END;
DROP TABLE taken;

-- more than is left, and all that is left
INSERT INTO leaf_alloc (biz_tag) VALUES ('all'), ('more than all');
SELECT leaf_segment_reserve('more than all', 9223372036854775807);
SELECT leaf_segment_nextval('more than all');
SELECT leaf_segment_reserve('all', 9223372036854775806);
SELECT leaf_segment_nextval('all');
SELECT leaf_segment_reserve('all', 1);
INSERT INTO leaf_alloc (biz_tag, max_id) VALUES ('ten left', 9223372036854775797);
SELECT leaf_segment_reserve('ten left', 11);
SELECT leaf_segment_reserve('ten left', 4);
SELECT leaf_segment_reserve('ten left', 7);
SELECT leaf_segment_reserve('ten left', 6);
SELECT leaf_segment_reserve('ten left', 1);

-- the same in the transaction that inserts the tag
BEGIN;
INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('own end', 9223372036854775805, 2147483647);
SELECT leaf_segment_nextval('own end');
SELECT leaf_segment_nextval('own end');
SAVEPOINT a;
SELECT leaf_segment_nextval('own end');
ROLLBACK TO a;
SELECT leaf_segment_reserve('own end', 1);
ROLLBACK TO a;
INSERT INTO leaf_alloc (biz_tag) VALUES ('own all');
SAVEPOINT a;
SELECT leaf_segment_reserve('own all', 9223372036854775807);
ROLLBACK TO a;
SELECT leaf_segment_reserve('own all', 9223372036854775806);
COMMIT;
SELECT leaf_segment_nextval('own all');
SELECT leaf_segment_nextval('own end');

-- tags are data: any bytes, exactly as they are
INSERT INTO leaf_alloc (biz_tag, max_id) VALUES
	('a', 1000), ('a ', 2000), (' a', 3000), ('A', 4000), ('a%', 5000), ('a_', 6000),
	('''; DROP TABLE leaf_alloc; --', 7000), (E'line\nbreak', 8000), (E'tab\there', 9000),
	(E'back\\slash', 10000), ('"quoted"', 11000), (repeat('x', 127), 12000), (repeat('x', 128), 13000),
	(E'\x01', 14000), ('$1', 15000), ('%s%n', 16000);
SELECT tag, leaf_segment_nextval(tag) FROM (VALUES
	('a'), ('a '), (' a'), ('A'), ('a%'), ('a_'), ('''; DROP TABLE leaf_alloc; --'), (E'line\nbreak'),
	(E'tab\there'), (E'back\\slash'), ('"quoted"'), (repeat('x', 127)), (repeat('x', 128)), (E'\x01'),
	('$1'), ('%s%n')) AS v (tag);
SELECT leaf_segment_nextval('aa');
SELECT leaf_segment_nextval('');
SELECT leaf_segment_nextval(repeat('x', 126));
SELECT leaf_segment_nextval(repeat('x', 129));
SELECT leaf_segment_nextval(repeat('x', 100000));
SELECT leaf_segment_nextval('a'::varchar), leaf_segment_nextval('a'::name);
SELECT leaf_segment_nextval('a'::char(10)) AS padding_of_char_is_not_data;

TRUNCATE leaf_alloc;
