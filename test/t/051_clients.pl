# G1, G4, G10: the clients that people use get their keys from leaf as they get
# them from a sequence: psql, COPY, every form of INSERT, MERGE, an ORM, Node.
#
# pg_regress can't reach it: it is one psql, and these are other programs, other
# protocols and several connections at once.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeafTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $CLIENTS = "$FindBin::RealBin/../clients";
my $node = leaf_ready_node('main', 'max_connections = 30');

# The people who use it are not superusers: one owns the application's tables
# and tags, which is what a migration needs.
$node->safe_psql('postgres', q(
	CREATE ROLE app LOGIN;
	GRANT CREATE ON SCHEMA public TO app;
	GRANT SELECT, INSERT, UPDATE, DELETE ON leaf_alloc TO app;
	GRANT pg_monitor TO app;
));

sub app
{
	my ($sql, @args) = @_;

	return $node->safe_psql('postgres', $sql,
		extra_params => [ '-U', 'app', @args ]);
}

# A table whose key comes from a tag of its own name.
sub table_with_key
{
	my ($name, $columns, $tail) = @_;

	app("INSERT INTO leaf_alloc (biz_tag) VALUES ('$name')");
	app(sprintf(
			q(CREATE TABLE %1$s (id bigint DEFAULT leaf_segment_nextval('%1$s'), %2$s) %3$s),
			$name, $columns, $tail // ''));
	return;
}

# One test: the table holds exactly $rows rows, with distinct ids from 1 on.
sub rows_ok
{
	my ($table, $rows, $what) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(
		app("SELECT count(*), count(DISTINCT id), min(id) >= 1 FROM $table"),
		"$rows|$rows|t", $what);
}

# COPY
my $csv = PostgreSQL::Test::Utils::tempdir() . '/lines.csv';
append_to_file($csv, join('', map { "line $_\n" } 1 .. 5000));

table_with_key('lines', 'txt text NOT NULL, PRIMARY KEY (id)');
app("\\copy lines (txt) FROM '$csv' WITH (FORMAT csv)");
rows_ok('lines', 5000, 'psql \copy, over more than one segment');
$node->safe_psql('postgres', "COPY lines (txt) FROM '$csv' WITH (FORMAT csv)");
rows_ok('lines', 10000, 'COPY FROM a file of the server');
app("COPY lines (txt) FROM STDIN;\nfirst\nsecond\n\\.\n");
rows_ok('lines', 10002, 'COPY FROM STDIN');

# INSERT in all its forms
table_with_key('forms', 'txt text, PRIMARY KEY (id)');
app("INSERT INTO forms (txt) SELECT 'row ' || g FROM generate_series(1, 5000) g");
rows_ok('forms', 5000, 'INSERT ... SELECT');
app("INSERT INTO forms (txt) VALUES ('a'), ('b'), ('c')");
rows_ok('forms', 5003, 'multi-row VALUES');
app("INSERT INTO forms (id, txt) VALUES (DEFAULT, 'd'), (DEFAULT, 'e')");
rows_ok('forms', 5005, 'DEFAULT as a value');

my $returned = app(
	"INSERT INTO forms (txt) VALUES ('returned'), ('returned') RETURNING id");
is( $returned,
	app("SELECT id FROM forms WHERE txt = 'returned' ORDER BY id"),
	'RETURNING id');
is( app(q(
		WITH parent AS (INSERT INTO forms (txt) VALUES ('parent') RETURNING id)
		INSERT INTO forms (txt) SELECT 'child of ' || id FROM parent;
		SELECT count(*) FROM forms p JOIN forms c ON c.txt = 'child of ' || p.id;
	)),
	1,
	'RETURNING id into another INSERT');

# Prepared statements, in SQL and over the extended protocol
app(q(
	PREPARE add AS INSERT INTO forms (txt) VALUES ($1) RETURNING id;
	EXECUTE add('prepared'); EXECUTE add('prepared'); EXECUTE add('prepared');
	EXECUTE add('prepared'); EXECUTE add('prepared'); EXECUTE add('prepared');
	EXECUTE add('prepared');
));
is(app("SELECT count(DISTINCT id) FROM forms WHERE txt = 'prepared'"),
	7, 'PREPARE and EXECUTE, generic plan included');

my $script = PostgreSQL::Test::Utils::tempdir() . '/add.sql';
append_to_file($script, "INSERT INTO forms (txt) VALUES ('pgbench');\n");
foreach my $protocol (qw(simple extended prepared))
{
	my $before = app('SELECT count(*) FROM forms');

	$node->command_ok(
		[
			'pgbench', '-n', '-U', 'app', '-M', $protocol, '-c', 4, '-t', 250,
			'-f', $script, 'postgres'
		],
		"pgbench, protocol $protocol");
	rows_ok('forms', $before + 1000, "rows of protocol $protocol");
}

# ON CONFLICT: ids that lose the conflict are gone, none comes twice
table_with_key('upserts', 'name text UNIQUE, n int DEFAULT 1, PRIMARY KEY (id)');
app(q(
	INSERT INTO upserts (name) SELECT 'n' || g % 10 FROM generate_series(1, 10) g;
	INSERT INTO upserts (name) SELECT 'n' || g FROM generate_series(0, 19) g
		ON CONFLICT (name) DO UPDATE SET n = upserts.n + 1;
	INSERT INTO upserts (name) SELECT 'n' || g FROM generate_series(0, 29) g
		ON CONFLICT DO NOTHING;
));
rows_ok('upserts', 30, 'ON CONFLICT DO UPDATE and DO NOTHING');
is(app('SELECT max(id), sum(n) FROM upserts'),
	'60|40', 'ON CONFLICT: updated rows keep their id');

# MERGE
app(q(
	MERGE INTO upserts u
		USING (SELECT 'n' || g AS name FROM generate_series(20, 39) g) s
		ON u.name = s.name
		WHEN MATCHED THEN UPDATE SET n = n + 1
		WHEN NOT MATCHED THEN INSERT (name) VALUES (s.name);
));
rows_ok('upserts', 40, 'MERGE');
is(app("SELECT count(*) FROM upserts WHERE id > 60"),
	10, 'MERGE: the rows it inserts have new ids');

# A key added to rows that exist, as DEFAULT of a new column
app(q(
	CREATE TABLE grown (txt text);
	INSERT INTO grown SELECT 'row ' || g FROM generate_series(1, 3000) g;
	INSERT INTO leaf_alloc (biz_tag) VALUES ('grown');
	ALTER TABLE grown ADD COLUMN id bigint
		DEFAULT leaf_segment_nextval('grown') PRIMARY KEY;
	INSERT INTO grown (txt) VALUES ('later');
));
rows_ok('grown', 3001, 'ALTER TABLE ... ADD COLUMN ... DEFAULT on 3000 rows');
is(app("SELECT id = (SELECT max(id) FROM grown) FROM grown WHERE txt = 'later'"),
	't', 'a row inserted afterwards comes after them');

# Partitioned and inherited tables share the parent's tag
table_with_key('parts', 'region text, PRIMARY KEY (id, region)',
	'PARTITION BY LIST (region)');
app(q(
	CREATE TABLE parts_eu PARTITION OF parts FOR VALUES IN ('eu');
	CREATE TABLE parts_us PARTITION OF parts FOR VALUES IN ('us');
	INSERT INTO parts (region) SELECT CASE WHEN g % 2 = 0 THEN 'eu' ELSE 'us' END
		FROM generate_series(1, 2000) g;
	INSERT INTO parts_eu (region) VALUES ('eu');
));
rows_ok('parts', 2001, 'partitioned by list, also inserted into a partition');

table_with_key('slices', 'txt text, PRIMARY KEY (id)', 'PARTITION BY RANGE (id)');
app(q(
	CREATE TABLE slices_1 PARTITION OF slices FOR VALUES FROM (1) TO (1001);
	CREATE TABLE slices_2 PARTITION OF slices FOR VALUES FROM (1001) TO (2001);
	INSERT INTO slices (txt) SELECT 'row ' || g FROM generate_series(1, 2000) g;
));
rows_ok('slices', 2000, 'partitioned by the id itself');
is(app('SELECT count(*) FROM slices_2'),
	1000, 'rows go to the partition of their id');

table_with_key('base', 'txt text');
app(q(
	CREATE TABLE derived (extra text) INHERITS (base);
	INSERT INTO base (txt) SELECT 'base' FROM generate_series(1, 1500);
	INSERT INTO derived (txt) SELECT 'derived' FROM generate_series(1, 1500);
));
rows_ok('base', 3000, 'inherited: parent and child together');

# An ORM
my $url = sprintf 'postgresql+psycopg2://app@/postgres?host=%s&port=%s',
  $node->host, $node->port;
my ($out, $err);

run_log([ '/usr/bin/python3', "$CLIENTS/orm.py", $url ], '>', \$out, '2>', \$err);
is($?, 0, 'SQLAlchemy over psycopg2') or diag($err);

foreach my $table (qw(orm_customer orm_invoice))
{
	my @ids = $out =~ /^$table (\d+)$/mg;
	my %distinct = map { $_ => 1 } @ids;

	cmp_ok(scalar(@ids), '>', 100, "$table: the ORM holds the keys");
	is(scalar(keys %distinct), scalar(@ids), "$table: all different");
	is( app(sprintf 'SELECT count(*) FROM %s WHERE id IN (%s)',
			$table, join(',', @ids)),
		scalar(@ids),
		"$table: all in the table");
}

# Node, with the packages of the lock file
{
	local %ENV = (
		%ENV,
		PGHOST => $node->host,
		PGPORT => $node->port,
		PGDATABASE => 'postgres',
		PGUSER => 'app');

	run_log([ 'node', "$CLIENTS/node_client.js" ], '>', \$out, '2>', \$err);
	is($?, 0, 'node-postgres') or diag($err);

	my @ids = split /\n/, $out;
	my %distinct = map { $_ => 1 } @ids;

	is(scalar(@ids), 405, 'every RETURNING of the Node client gave an id');
	is(scalar(keys %distinct), 405, 'all different');
	rows_ok('node_event', 405, 'all in the table');
}

$node->stop;
done_testing();
