# G9: the refill worker runs no code of a less privileged user with more rights
# than his own: triggers of one who was granted TRIGGER, look-alike tables and
# operators in a search_path of the database, and whatever an owner of leaf_alloc
# who is no superuser attaches to it.
#
# Not for pg_regress: what the worker does is not seen by the session that asks,
# and settings of the database are the worker's, too.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeafTest;
use LeafTest::Call;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = leaf_node('main', 'leaf.segment_duration = 0');
$node->start;
$node->safe_psql('postgres', 'CREATE ROLE mallory LOGIN; CREATE DATABASE target');
create_extension($node, 'target');
$node->safe_psql('target', <<'SQL');
INSERT INTO leaf_alloc (biz_tag, step) VALUES ('t', 10);
GRANT TRIGGER, REFERENCES ON leaf_alloc TO mallory;
CREATE SCHEMA evil AUTHORIZATION mallory;
SET ROLE mallory;
CREATE TABLE evil.log (who name, session name, what text, process text);
GRANT USAGE ON SCHEMA evil TO PUBLIC;
GRANT INSERT ON evil.log TO PUBLIC;
-- What runs with somebody's rights leaves that somebody's name.
CREATE FUNCTION evil.note(what text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO evil.log VALUES (current_user, session_user, what, current_setting('application_name'));
END $$;
CREATE FUNCTION evil.record() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM evil.note('trigger ' || TG_NAME);
	RETURN NEW;
END $$;
CREATE TRIGGER before_row BEFORE UPDATE ON leaf_alloc FOR EACH ROW EXECUTE FUNCTION evil.record();
CREATE TRIGGER after_row AFTER UPDATE ON leaf_alloc FOR EACH ROW EXECUTE FUNCTION evil.record();
CREATE TRIGGER before_all BEFORE UPDATE ON leaf_alloc EXECUTE FUNCTION evil.record();
CREATE TRIGGER after_all AFTER UPDATE ON leaf_alloc EXECUTE FUNCTION evil.record();
CREATE CONSTRAINT TRIGGER late AFTER UPDATE ON leaf_alloc DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION evil.record();
-- Look-alikes.
CREATE TABLE evil.leaf_alloc (biz_tag varchar(128) PRIMARY KEY, max_id bigint DEFAULT 777000,
							  step int DEFAULT 5, description varchar(256), update_time timestamptz);
INSERT INTO evil.leaf_alloc (biz_tag) VALUES ('t'), ('other');
GRANT ALL ON evil.leaf_alloc TO PUBLIC;
CREATE FUNCTION evil.eq(a varchar, b text) RETURNS boolean LANGUAGE plpgsql AS
	$$BEGIN PERFORM evil.note('= (varchar, text)'); RETURN a::text OPERATOR(pg_catalog.=) b; END$$;
CREATE FUNCTION evil.eq(a text, b text) RETURNS boolean LANGUAGE plpgsql AS
	$$BEGIN PERFORM evil.note('= (text, text)'); RETURN a OPERATOR(pg_catalog.=) b; END$$;
CREATE FUNCTION evil.eq(a varchar, b varchar) RETURNS boolean LANGUAGE plpgsql AS
	$$BEGIN PERFORM evil.note('= (varchar, varchar)'); RETURN a::text OPERATOR(pg_catalog.=) b::text; END$$;
CREATE OPERATOR evil.= (LEFTARG = varchar, RIGHTARG = text, FUNCTION = evil.eq);
CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.eq);
CREATE OPERATOR evil.= (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = evil.eq);
CREATE FUNCTION evil.plus(a bigint, b bigint) RETURNS bigint LANGUAGE plpgsql AS
	$$BEGIN PERFORM evil.note('+ (bigint, bigint)'); RETURN a; END$$;
CREATE FUNCTION evil.plus(a bigint, b int) RETURNS bigint LANGUAGE plpgsql AS
	$$BEGIN PERFORM evil.note('+ (bigint, int)'); RETURN a; END$$;
CREATE OPERATOR evil.+ (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.plus);
CREATE OPERATOR evil.+ (LEFTARG = bigint, RIGHTARG = int, FUNCTION = evil.plus);
CREATE FUNCTION evil.now() RETURNS timestamptz LANGUAGE plpgsql AS
	$$BEGIN PERFORM evil.note('now'); RETURN '2001-01-01'; END$$;
CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS
	$$BEGIN PERFORM evil.note('clock_timestamp'); RETURN '2001-01-01'; END$$;
CREATE FUNCTION evil.pg_blocking_pids(integer) RETURNS integer[] LANGUAGE plpgsql AS
	$$BEGIN PERFORM evil.note('pg_blocking_pids'); RETURN NULL; END$$;
CREATE VIEW evil.pg_stat_activity AS SELECT 1 AS pid FROM evil.note('pg_stat_activity');
RESET ROLE;
ALTER DATABASE target SET search_path = evil, pg_catalog, public;
ALTER ROLE ALL SET search_path = evil, pg_catalog, public;
SQL

my $many = "SELECT count(DISTINCT public.leaf_segment_nextval('t')), max(public.leaf_segment_nextval('t')) < 777000 FROM generate_series(1, 300)";
my $log = 'SELECT DISTINCT who, session, what, process FROM evil.log ORDER BY 1, 3';

# The recorder works: an ordinary UPDATE runs the triggers, and the search_path
# finds the look-alikes.
$node->safe_psql('target', "UPDATE public.leaf_alloc SET step = 10 WHERE 'x'::text = 'x'::text");
cmp_ok(scalar(split /\n/, $node->safe_psql('target', $log)), '>=', 6, 'triggers and look-alikes are in force');
$node->safe_psql('target', 'TRUNCATE evil.log');

is($node->safe_psql('target', $many), '300|t', 'refills');
is($node->safe_psql('target', "SELECT upper(public.leaf_segment_reserve('t', 5000)) > 5000"), 't', 'a block');
my $holder = $node->background_psql('target');
$holder->query_safe('BEGIN');
$holder->query_safe("SELECT 1 FROM public.leaf_alloc WHERE biz_tag LIKE 't' FOR UPDATE");
my $call = LeafTest::Call->run($node, $many, dbname => 'target', wait_timeout => '300ms');
is($call->sqlstate, '55P03', 'a wait that ends with an error');
$holder->query_safe('COMMIT');
$holder->quit;
is($node->safe_psql('target', $many), '300|t', 'refills');
is($node->safe_psql('target', $log), '', 'nothing of mallory\'s ran in the worker');
is($node->safe_psql('target', 'SELECT DISTINCT max_id FROM evil.leaf_alloc'), '777000', 'his table is as it was');

# A table owner who is no superuser: what he attaches runs as him, in a
# restricted context, or not at all.
$node->safe_psql('target', <<'SQL');
DROP TRIGGER before_row ON public.leaf_alloc;
DROP TRIGGER after_row ON public.leaf_alloc;
DROP TRIGGER before_all ON public.leaf_alloc;
DROP TRIGGER after_all ON public.leaf_alloc;
DROP TRIGGER late ON public.leaf_alloc;
GRANT CREATE ON SCHEMA public TO mallory;
ALTER TABLE public.leaf_alloc OWNER TO mallory;
SET ROLE mallory;
CREATE TRIGGER always_row BEFORE UPDATE ON public.leaf_alloc FOR EACH ROW EXECUTE FUNCTION evil.record();
CREATE TRIGGER always_all AFTER UPDATE ON public.leaf_alloc EXECUTE FUNCTION evil.record();
ALTER TABLE public.leaf_alloc ENABLE ALWAYS TRIGGER always_row;
ALTER TABLE public.leaf_alloc ENABLE ALWAYS TRIGGER always_all;
CREATE FUNCTION evil.claims_immutable(bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS
	$$BEGIN PERFORM evil.note('index'); RETURN $1; END$$;
RESET ROLE;
TRUNCATE evil.log;
SQL
is($node->safe_psql('target', $many), '300|t', 'refills of a table owned by mallory');
is($node->safe_psql('target', "SELECT count(*) FROM evil.log WHERE who <> 'mallory'"), '0', 'nothing of his ran as somebody else');
$node->safe_psql('target', "SET ROLE mallory; CREATE INDEX ON public.leaf_alloc (evil.claims_immutable(max_id)); RESET ROLE; TRUNCATE evil.log");
$call = LeafTest::Call->run($node, $many, dbname => 'target', wait_timeout => '2s');
is($node->safe_psql('target', "SELECT count(*) FROM evil.log WHERE who <> 'mallory'"), '0', 'nothing of his index ran as somebody else')
  or diag($node->safe_psql('target', $log));

# Security-restricted: what runs there can't become somebody else.
$node->safe_psql('target', <<'SQL');
SET ROLE mallory;
DROP INDEX public.leaf_alloc_claims_immutable_idx;
CREATE OR REPLACE FUNCTION evil.record() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	BEGIN
		SET SESSION AUTHORIZATION DEFAULT;
		PERFORM evil.note('became ' || current_user);
	EXCEPTION WHEN OTHERS THEN
		NULL;
	END;
	BEGIN
		RESET ROLE;
		PERFORM evil.note('became ' || current_user);
	EXCEPTION WHEN OTHERS THEN
		NULL;
	END;
	PERFORM evil.note('trigger');
	RETURN NEW;
END $$;
RESET ROLE;
TRUNCATE evil.log;
SQL
$call = LeafTest::Call->run($node, $many, dbname => 'target', wait_timeout => '2s');
is($node->safe_psql('target', "SELECT count(*) FROM evil.log WHERE who <> 'mallory' OR what LIKE 'became%'"), '0', 'and nothing of his became somebody else')
  or diag($node->safe_psql('target', $log));

# Owned by a role that can't log in, has no rights but those of an owner, and
# whose own settings are odd.
$node->safe_psql('postgres', <<'SQL');
CREATE ROLE plain NOLOGIN;
ALTER ROLE plain SET default_transaction_read_only = on;
ALTER ROLE plain SET statement_timeout = 1;
CREATE DATABASE plain;
SQL
$node->safe_psql('plain', 'CREATE EXTENSION leaf SCHEMA public');
$node->safe_psql('plain', "INSERT INTO public.leaf_alloc (biz_tag, step) VALUES ('t', 10); ALTER TABLE public.leaf_alloc OWNER TO plain");
is($node->safe_psql('plain', $many), '300|t', 'refills of a table whose owner can\'t log in');
$node->safe_psql('plain', <<'SQL');
CREATE POLICY nothing ON public.leaf_alloc USING (false);
ALTER TABLE public.leaf_alloc ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.leaf_alloc FORCE ROW LEVEL SECURITY;
SQL
$call = LeafTest::Call->run($node, $many, dbname => 'plain', wait_timeout => '1s');
like($call->result . $call->sqlstate, qr/^(300\|t|42704|55P03|42501)$/, 'forced row security of an owner: ids, or a clear error') or diag($call->error);

done_testing();
