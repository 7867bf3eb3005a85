--
-- privileges: who may call, who may change leaf_alloc, who may see the views;
-- and nothing of a user runs with more rights than his own (G9).
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS leaf;
CREATE ROLE regress_leaf_app;
CREATE ROLE regress_leaf_monitor IN ROLE pg_monitor;
CREATE ROLE regress_leaf_mallory;
RESET client_min_messages;
\set VERBOSITY sqlstate
TRUNCATE leaf_alloc;
INSERT INTO leaf_alloc (biz_tag, step) VALUES ('p', 100);

-- what PUBLIC gets of segments: one function
SELECT p.proname AS function_for_public
FROM pg_depend AS d JOIN pg_proc AS p ON p.oid = d.objid
WHERE d.deptype = 'e' AND d.classid = 'pg_proc'::regclass
      AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'leaf')
      AND p.proname NOT LIKE 'leaf\_snowflake\_%'
      AND has_function_privilege('regress_leaf_mallory', p.oid, 'EXECUTE')
ORDER BY 1;
SELECT c.relname AS relation_for_public
FROM pg_depend AS d JOIN pg_class AS c ON c.oid = d.objid
WHERE d.deptype = 'e' AND d.classid = 'pg_class'::regclass
      AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'leaf')
      AND has_table_privilege('regress_leaf_mallory', c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
ORDER BY 1;
SELECT c.relname, p.privilege
FROM pg_depend AS d JOIN pg_class AS c ON c.oid = d.objid,
     unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) AS p (privilege)
WHERE d.deptype = 'e' AND d.classid = 'pg_class'::regclass AND c.relkind IN ('r', 'v')
      AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'leaf')
      AND c.relname NOT LIKE 'leaf\_snowflake\_%'
      AND has_table_privilege('regress_leaf_monitor', c.oid, p.privilege)
ORDER BY 1, 2;

-- an application that was granted nothing of leaf: a DEFAULT works
CREATE TABLE app (id bigint PRIMARY KEY DEFAULT leaf_segment_nextval('p'), note text);
GRANT SELECT, INSERT ON app TO regress_leaf_app;
SET ROLE regress_leaf_app;
INSERT INTO app (note) VALUES ('a'), ('b') RETURNING id;
SELECT leaf_segment_nextval('p');
SELECT count(DISTINCT leaf_segment_nextval('p')) FROM generate_series(1, 1000);
SELECT leaf_segment_nextval('no such tag');
SELECT leaf_segment_reserve('p', 5);
SELECT * FROM leaf_alloc;
SELECT * FROM leaf_segment_status;
SELECT * FROM leaf_alarms;
INSERT INTO leaf_alloc (biz_tag) VALUES ('mine');
UPDATE leaf_alloc SET max_id = 1;
DELETE FROM leaf_alloc;
TRUNCATE leaf_alloc;
RESET ROLE;

-- blocks are granted
GRANT EXECUTE ON FUNCTION leaf_segment_reserve TO regress_leaf_app;
SET ROLE regress_leaf_app;
SELECT upper(r) - lower(r) AS length FROM leaf_segment_reserve('p', 5) AS r;
SELECT upper(r) - lower(r) AS length FROM leaf_segment_reserve('p', 50000) AS r;
RESET ROLE;

-- tags are granted as rows of any table; INSERT alone is enough to make a tag
-- and use it in one transaction
GRANT INSERT ON leaf_alloc TO regress_leaf_app;
SET ROLE regress_leaf_app;
BEGIN;
INSERT INTO leaf_alloc (biz_tag) VALUES ('made by app');
SELECT leaf_segment_nextval('made by app');
SAVEPOINT a;
SELECT leaf_segment_nextval('made by app') AS last \gset
ROLLBACK TO a;
SELECT leaf_segment_nextval('made by app') > :last AS goes_on;
UPDATE leaf_alloc SET max_id = 1 WHERE biz_tag = 'made by app';
ROLLBACK TO a;
COMMIT;
SELECT leaf_segment_nextval('made by app') > :last + 1 AS goes_on;
RESET ROLE;

-- the views are the monitor's
SET ROLE regress_leaf_monitor;
SELECT biz_tag FROM leaf_segment_status ORDER BY 1;
SELECT count(*) FROM leaf_alarms;
SELECT count(*) FROM leaf_alloc;
SELECT leaf_segment_reserve('p', 1);
RESET ROLE;

-- A user who was granted TRIGGER: his function is not run by a refill, in the
-- worker or in a transaction that inserted its own tag, and can't change what
-- is reserved.
CREATE SCHEMA mallory AUTHORIZATION regress_leaf_mallory;
GRANT TRIGGER ON leaf_alloc TO regress_leaf_mallory;
SET ROLE regress_leaf_mallory;
CREATE TABLE mallory.log (who name, session name, what text);
GRANT USAGE ON SCHEMA mallory TO PUBLIC;
GRANT INSERT ON mallory.log TO PUBLIC;
CREATE FUNCTION mallory.record() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO mallory.log VALUES (current_user, session_user, TG_OP);
	IF TG_OP = 'UPDATE' AND TG_LEVEL = 'ROW' THEN
		NEW.max_id := OLD.max_id;
		RETURN NEW;
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER a_row BEFORE UPDATE ON leaf_alloc FOR EACH ROW EXECUTE FUNCTION mallory.record();
CREATE TRIGGER a_before BEFORE UPDATE ON leaf_alloc EXECUTE FUNCTION mallory.record();
CREATE TRIGGER a_after AFTER UPDATE ON leaf_alloc EXECUTE FUNCTION mallory.record();
CREATE TRIGGER zz_row AFTER UPDATE ON leaf_alloc FOR EACH ROW EXECUTE FUNCTION mallory.record();
RESET ROLE;
SELECT count(DISTINCT leaf_segment_nextval('p')) FROM generate_series(1, 5000);
INSERT INTO leaf_alloc (biz_tag, step) VALUES ('fresh', 10);
SELECT count(DISTINCT leaf_segment_nextval('fresh')) FROM generate_series(1, 500);
SELECT lower(leaf_segment_reserve('fresh', 5000)) > 500 AS above;
SET ROLE regress_leaf_app;
BEGIN;
INSERT INTO leaf_alloc (biz_tag, step) VALUES ('fresh 2', 10);
SELECT count(DISTINCT leaf_segment_nextval('fresh 2')) FROM generate_series(1, 500);
SAVEPOINT a;
SELECT leaf_segment_nextval('fresh 2') > 500 AS above;
ROLLBACK TO a;
COMMIT;
SELECT leaf_segment_nextval('fresh 2') > 501 AS above;
RESET ROLE;
SELECT DISTINCT * FROM mallory.log;
-- the recorder does record: a plain UPDATE runs it, with the updating user's rights
UPDATE leaf_alloc SET description = 'x' WHERE biz_tag = 'p';
SELECT count(*) > 0 AS recorded FROM mallory.log;
-- and though he kept max_id, nothing is given twice
SELECT count(DISTINCT leaf_segment_nextval('p')) FROM generate_series(1, 5000);
DROP TRIGGER a_row ON leaf_alloc;
DROP TRIGGER a_before ON leaf_alloc;
DROP TRIGGER a_after ON leaf_alloc;
DROP TRIGGER zz_row ON leaf_alloc;
REVOKE TRIGGER ON leaf_alloc FROM regress_leaf_mallory;
TRUNCATE mallory.log;

-- Look-alikes in front of the search_path: tables, functions, operators, types.
SET ROLE regress_leaf_mallory;
CREATE TABLE mallory.leaf_alloc (biz_tag text, max_id bigint DEFAULT 777000, step int DEFAULT 5,
								 description text, update_time timestamptz);
INSERT INTO mallory.leaf_alloc (biz_tag) VALUES ('p'), ('look-alike');
GRANT ALL ON mallory.leaf_alloc TO PUBLIC;
CREATE FUNCTION mallory.note(what text) RETURNS void LANGUAGE sql AS
	$$INSERT INTO mallory.log VALUES (current_user, session_user, what)$$;
CREATE FUNCTION mallory.eq(a varchar, b text) RETURNS boolean LANGUAGE plpgsql AS
	$$BEGIN PERFORM mallory.note('= (varchar, text)'); RETURN a::pg_catalog.text OPERATOR(pg_catalog.=) b; END$$;
CREATE FUNCTION mallory.eq2(a text, b text) RETURNS boolean LANGUAGE plpgsql AS
	$$BEGIN PERFORM mallory.note('= (text, text)'); RETURN a OPERATOR(pg_catalog.=) b; END$$;
CREATE FUNCTION mallory.eq3(a varchar, b varchar) RETURNS boolean LANGUAGE plpgsql AS
	$$BEGIN PERFORM mallory.note('= (varchar, varchar)'); RETURN a::pg_catalog.text OPERATOR(pg_catalog.=) b::pg_catalog.text; END$$;
CREATE OPERATOR mallory.= (LEFTARG = varchar, RIGHTARG = text, FUNCTION = mallory.eq);
CREATE OPERATOR mallory.= (LEFTARG = text, RIGHTARG = text, FUNCTION = mallory.eq2);
CREATE OPERATOR mallory.= (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = mallory.eq3);
CREATE FUNCTION mallory.plus(a bigint, b bigint) RETURNS bigint LANGUAGE plpgsql AS
	$$BEGIN PERFORM mallory.note('+ (bigint, bigint)'); RETURN a; END$$;
CREATE FUNCTION mallory.plus2(a bigint, b int) RETURNS bigint LANGUAGE plpgsql AS
	$$BEGIN PERFORM mallory.note('+ (bigint, int)'); RETURN a; END$$;
CREATE OPERATOR mallory.+ (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = mallory.plus);
CREATE OPERATOR mallory.+ (LEFTARG = bigint, RIGHTARG = int, FUNCTION = mallory.plus2);
CREATE FUNCTION mallory.now() RETURNS timestamptz LANGUAGE plpgsql AS
	$$BEGIN PERFORM mallory.note('now'); RETURN '2001-01-01'; END$$;
CREATE FUNCTION mallory.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS
	$$BEGIN PERFORM mallory.note('clock_timestamp'); RETURN '2001-01-01'; END$$;
CREATE DOMAIN mallory.text AS pg_catalog.text CHECK (false);
CREATE DOMAIN mallory.bigint AS pg_catalog.int8 CHECK (false);
RESET ROLE;
-- a look-alike operator does record when it is used
SET search_path = mallory, pg_catalog, public;
SELECT 'x'::varchar = 'x'::pg_catalog.text AS used;
SELECT DISTINCT what FROM mallory.log;
TRUNCATE mallory.log;
INSERT INTO public.leaf_alloc (biz_tag, step) VALUES ('shadow', 10);
UPDATE public.leaf_alloc SET step = 20 WHERE biz_tag OPERATOR(pg_catalog.=) 'shadow';
SELECT public.leaf_segment_nextval('shadow') FROM generate_series(1, 3);
SELECT count(DISTINCT public.leaf_segment_nextval('shadow')) FROM generate_series(1, 300);
SELECT upper(public.leaf_segment_reserve('shadow', 3000)) OPERATOR(pg_catalog.>) 3000 AS reserved;
SELECT public.leaf_segment_nextval('look-alike');
SELECT public.leaf_segment_nextval('p') OPERATOR(pg_catalog.<) 777000 AS from_the_real_table;
BEGIN;
INSERT INTO public.leaf_alloc (biz_tag, step) VALUES ('shadow 2', 10);
SELECT public.leaf_segment_nextval('shadow 2') FROM generate_series(1, 2);
SELECT count(DISTINCT public.leaf_segment_nextval('shadow 2')) FROM generate_series(1, 300);
SAVEPOINT a;
SELECT upper(public.leaf_segment_reserve('shadow 2', 5000)) OPERATOR(pg_catalog.>) 5000 AS reserved;
ROLLBACK TO a;
COMMIT;
SELECT public.leaf_segment_nextval('shadow 2') OPERATOR(pg_catalog.>) 5000 AS goes_on;
SELECT count(*) FROM public.leaf_segment_status WHERE biz_tag LIKE 'shadow%';
SELECT count(*) FROM public.leaf_alarms;
DELETE FROM public.leaf_alloc WHERE biz_tag OPERATOR(pg_catalog.~~) 'shadow%';
RESET search_path;
SELECT DISTINCT * FROM mallory.log;
SELECT DISTINCT max_id FROM mallory.leaf_alloc;
SELECT update_time > '2002-01-01' AS real_time FROM leaf_alloc WHERE biz_tag = 'p';

-- trigger functions of the extension are of no use on another table
SET ROLE regress_leaf_mallory;
\set VERBOSITY terse
DO $$
DECLARE
	f regprocedure;
BEGIN
	FOR f IN SELECT p.oid FROM pg_depend AS d JOIN pg_proc AS p ON p.oid = d.objid
			 WHERE d.deptype = 'e' AND d.classid = 'pg_proc'::regclass
				   AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'leaf')
				   AND p.prorettype = 'trigger'::regtype
	LOOP
		BEGIN
			EXECUTE format('CREATE TRIGGER borrowed AFTER INSERT ON mallory.leaf_alloc FOR EACH ROW EXECUTE FUNCTION %s', f);
			RAISE NOTICE 'borrowed %', f;
		EXCEPTION WHEN insufficient_privilege THEN
			NULL;
		END;
	END LOOP;
END $$;
\set VERBOSITY sqlstate
RESET ROLE;

-- row security of the table: the owner may use it, refills go on
CREATE POLICY nothing ON leaf_alloc USING (false);
ALTER TABLE leaf_alloc ENABLE ROW LEVEL SECURITY;
ALTER TABLE leaf_alloc FORCE ROW LEVEL SECURITY;
SELECT count(DISTINCT leaf_segment_nextval('p')) FROM generate_series(1, 5000);
SET row_security = off;
SELECT count(DISTINCT leaf_segment_nextval('p')) FROM generate_series(1, 5000);
RESET row_security;
ALTER TABLE leaf_alloc NO FORCE ROW LEVEL SECURITY;
ALTER TABLE leaf_alloc DISABLE ROW LEVEL SECURITY;
DROP POLICY nothing ON leaf_alloc;

-- only a superuser installs it
GRANT CREATE ON DATABASE :DBNAME TO regress_leaf_mallory;
DROP TABLE app;
DROP EXTENSION leaf;
SET ROLE regress_leaf_mallory;
CREATE EXTENSION leaf SCHEMA mallory;
RESET ROLE;
-- what was there before it is not taken for a part of it
SET ROLE regress_leaf_mallory;
DROP TABLE mallory.leaf_alloc;
CREATE FUNCTION mallory.leaf_segment_nextval(tag pg_catalog.text) RETURNS pg_catalog.int8 LANGUAGE sql AS 'SELECT 7::pg_catalog.int8';
RESET ROLE;
CREATE EXTENSION leaf SCHEMA mallory;
\set VERBOSITY default
SET client_min_messages = warning;
DROP SCHEMA mallory CASCADE;
CREATE EXTENSION leaf;
REVOKE ALL ON DATABASE :DBNAME FROM regress_leaf_mallory;
DROP ROLE regress_leaf_app, regress_leaf_monitor, regress_leaf_mallory;
