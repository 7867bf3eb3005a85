# G1, G2, G3: no id comes twice and none comes late, whatever process dies, and
# whatever the settings say of waiting for the disk.
#
# pg_regress can't reach it: it takes kill -9 of the postmaster, of backends and
# of the worker in the middle of their work, and a record of the ids that
# outlives what the database forgets.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeafTest;
use LeafTest::Ids;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $ROUNDS = 36;
my $seed = $ENV{LEAF_TEST_SEED} // int(rand(2**31));

srand($seed);
diag("LEAF_TEST_SEED=$seed");

# Everything that makes a commit return before it is on disk, at every level.
# A disk that stalls under other tests is no error of ours: calls may wait.
my $node = leaf_node('main',
	'synchronous_commit = off',
	'wal_writer_delay = 10s',
	"leaf.wait_timeout = '60s'",
	'max_connections = 30');
$node->start;
create_extension($node);
$node->safe_psql('postgres', q(
	CREATE ROLE clerk LOGIN;
	ALTER DATABASE postgres SET synchronous_commit = off;
	ALTER ROLE clerk SET synchronous_commit = off;
	ALTER ROLE ALL SET synchronous_commit = off;
	INSERT INTO leaf_alloc (biz_tag, step) VALUES ('orders', 20), ('items', 1000);
	CREATE TABLE orders (
		id bigint PRIMARY KEY DEFAULT leaf_segment_nextval('orders'));
	CREATE TABLE items (
		id bigint PRIMARY KEY DEFAULT leaf_segment_nextval('items'));
	GRANT SELECT, INSERT ON orders, items TO clerk;
	GRANT EXECUTE ON FUNCTION leaf_segment_reserve TO clerk;
	CREATE SEQUENCE plain;
	GRANT USAGE ON SEQUENCE plain TO clerk;
));

# A step that stays at 20 keeps the worker in the middle of a refill all the
# time; adapted steps take the rounds of the second half.
sub set_duration
{
	my ($value) = @_;

	$node->safe_psql('postgres',
		"ALTER SYSTEM SET leaf.segment_duration = '$value'");
	$node->reload;
	return;
}
set_duration('0');

# In autocommit, in transactions that commit, in transactions that roll back,
# without a row at all, and in blocks smaller and larger than a segment.
my $orders = LeafTest::Ids->new;
my $items = LeafTest::Ids->new;
my $insert = 'INSERT INTO %s DEFAULT VALUES RETURNING id';
my $batch = join(';', map { sprintf $insert, 'items' } 1 .. 10);

$orders->start($node, sprintf($insert, 'orders'), user => 'clerk', clients => 2);
$orders->start($node, "SELECT leaf_segment_nextval('orders')", user => 'clerk');
$orders->start($node,
	"SELECT generate_series(lower(r), upper(r) - 1) FROM leaf_segment_reserve('orders', 50) r",
	user => 'clerk');
$items->start($node, "BEGIN; $batch; COMMIT", user => 'clerk');
$items->start($node, "BEGIN; $batch; ROLLBACK", user => 'clerk');
$items->start($node,
	"SELECT generate_series(lower(r), upper(r) - 1) FROM leaf_segment_reserve('items', 7) r",
	user => 'clerk');

my %victims = (
	postmaster => sub { crash_postmaster($node); $node->start; return 1; },
	backend => sub { return crash_backend($node) },
	worker => sub { return crash_worker($node, 'leaf refill') });
my %killed = map { $_ => 0 } keys %victims;

foreach my $round (1 .. $ROUNDS)
{
	my $victim = (sort keys %victims)[ rand 3 ];

	$_->wait_for_more(50) foreach $orders, $items;
	wait_until("the death of a $victim", $victims{$victim});
	$killed{$victim}++;
	set_duration('15min') if $round == int($ROUNDS / 2);
}
$_->wait_for_more(50) foreach $orders, $items;
$_->stop foreach $orders, $items;

note join(', ', map { "$_ killed $killed{$_} times" } sort keys %killed);
cmp_ok($killed{$_}, '>=', 1, "a $_ was killed") foreach sort keys %victims;
$orders->check_ok("G1, G3: tag with a small step over $ROUNDS crashes, seed $seed");
$items->check_ok("G1, G3: tag with a large step over $ROUNDS crashes, seed $seed");
my %errors = map { $_ => 1 } ($orders->errors . $items->errors) =~ /^.*ERROR:.*$/mg;
is(join("\n", sort keys %errors), '', 'no client met an error other than a lost connection');

# The table's own word agrees: nothing was handed out that is not reserved.
foreach my $tag ([ orders => $orders ], [ items => $items ])
{
	my ($name, $ids) = @$tag;
	my ($highest) = sort { $b <=> $a } $ids->ids;

	cmp_ok(
		$node->safe_psql('postgres',
			"SELECT max_id FROM leaf_alloc WHERE biz_tag = '$name'"),
		'>', $highest, "G2: all ids of $name lie below its max_id");
}

# The contrast: the same clients, settings and crashes, and a core sequence. It
# proves that the crashes did lose WAL and that the check sees a repeated id.
my $plain = LeafTest::Ids->new;
$plain->start($node, q(BEGIN; SELECT nextval('plain'); SELECT nextval('plain'); COMMIT),
	user => 'clerk', clients => 2);
foreach (1 .. 10)
{
	$plain->wait_for_more(100);
	crash_postmaster($node);
	$node->start;
	$plain->wait_for_more(100);
	last if $plain->problems;
}
$plain->stop;
cmp_ok(scalar($plain->problems),
	'>', 0, 'core nextval repeats values under the same treatment');
note "core nextval: $_" foreach ($plain->problems)[ 0 .. 2 ];

$node->stop;
done_testing();
