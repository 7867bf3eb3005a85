# G1, G6: a dump holds the tags, and a database restored from it, however, goes
# on above every id in it, and has nothing to do with the database it was
# taken from.
#
# pg_regress can't reach it: it runs pg_dump and pg_restore, while ids are drawn.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeafTest;
use LeafTest::Ids;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = leaf_node('main', 'max_connections = 30', 'max_worker_processes = 16');
$node->start;

# The extension in a schema of its own, a tag of every awkward kind.
$node->safe_psql('postgres', 'CREATE DATABASE source');
$node->safe_psql('source', q(
	CREATE SCHEMA ids;
	CREATE EXTENSION leaf SCHEMA ids;
	INSERT INTO ids.leaf_alloc (biz_tag, step, description) VALUES
		('orders', 50, 'what the clients draw from'),
		(E'it''s "odd"\n\\.	tab', 7, NULL),
		('Überweisung', 1000, 'umlauts');
	CREATE TABLE orders (
		id bigint PRIMARY KEY DEFAULT ids.leaf_segment_nextval('orders'),
		txt text);
	INSERT INTO orders (txt) SELECT 'row ' || g FROM generate_series(1, 2000) g;
));

my $insert = "INSERT INTO orders (txt) VALUES ('live') RETURNING id";
my $live = LeafTest::Ids->new;
$live->start($node, $insert, dbname => 'source', clients => 2);
$live->wait_for_more(500);

my $dir = PostgreSQL::Test::Utils::tempdir();
$node->command_ok([ 'pg_dump', '-f', "$dir/plain.sql", 'source' ],
	'pg_dump, plain, while ids are drawn');
$node->command_ok([ 'pg_dump', '-Fc', '-f', "$dir/custom", 'source' ],
	'pg_dump, custom');
$node->command_ok([ 'pg_dump', '-Fd', '-j', 2, '-f', "$dir/directory", 'source' ],
	'pg_dump, directory, in parallel');
$live->wait_for_more(500);

my %restore = (
	plain => [ 'psql', '-X', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/plain.sql", '-d' ],
	plain_single => [
		'psql', '-X', '-1', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/plain.sql", '-d'
	],
	custom => [ 'pg_restore', '-e', "$dir/custom", '-d' ],
	custom_single =>
	  [ 'pg_restore', '-e', '--single-transaction', "$dir/custom", '-d' ],
	custom_jobs => [ 'pg_restore', '-e', '-j', 2, "$dir/custom", '-d' ],
	directory_jobs => [ 'pg_restore', '-e', '-j', 2, "$dir/directory", '-d' ]);

foreach my $how (sort keys %restore)
{
	$node->safe_psql('postgres', "CREATE DATABASE $how");
	$node->command_ok([ @{ $restore{$how} }, $how ], "restore: $how");

	is( $node->safe_psql($how,
			'SELECT biz_tag, step, description FROM ids.leaf_alloc ORDER BY 1'),
		$node->safe_psql('source',
			'SELECT biz_tag, step, description FROM ids.leaf_alloc ORDER BY 1'),
		"$how: the tags are there");

	my $highest = $node->safe_psql($how, 'SELECT max(id) FROM orders');
	my $ids = LeafTest::Ids->new;

	$ids->start($node, $insert, dbname => $how, clients => 2);
	$ids->wait_for_more(200);
	$ids->stop;
	$ids->check_ok("$how: ids are unique and ordered");

	my ($lowest) = sort { $a <=> $b } $ids->ids;
	cmp_ok($lowest, '>', $highest, "$how: goes on above the dump's ids");
}

# Over a database in use: --clean drops and re-creates the extension, the table
# and its rows under the feet of what is cached.
my $cached = $node->safe_psql('custom',
	"SELECT max(ids.leaf_segment_nextval('orders')) FROM generate_series(1, 1000000)");
$node->command_ok(
	[ 'pg_restore', '-e', '--clean', '--if-exists', "$dir/custom", '-d', 'custom' ],
	'restore with --clean over a database in use');
my $restored = $node->safe_psql('custom', "SELECT ids.leaf_segment_nextval('orders')");
cmp_ok($restored, '>', $node->safe_psql('custom', 'SELECT max(id) FROM orders'),
	'after --clean: goes on above the restored ids');
cmp_ok($restored, '<', $cached,
	'after --clean: not from the ranges that were cached before');

# Only the tags' rows, and with triggers disabled as --disable-triggers does it.
$node->safe_psql('plain', 'TRUNCATE ids.leaf_alloc');
$node->command_ok(
	[
		'pg_restore', '-e', '--data-only', '--disable-triggers', '-t',
		'leaf_alloc', "$dir/custom", '-d', 'plain'
	],
	'restore of the tags alone, triggers disabled');
my $max_id = $node->safe_psql('plain',
	"SELECT max_id FROM ids.leaf_alloc WHERE biz_tag = 'orders'");
is($node->safe_psql('plain', "SELECT ids.leaf_segment_nextval('orders')"),
	$max_id, 'the restored tag is the one in force');

$live->stop;
$live->check_ok('the source went on undisturbed');
$node->stop;
done_testing();
