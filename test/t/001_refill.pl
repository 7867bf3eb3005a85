# G4, and how refills are asked for: the next segment is fetched at the
# threshold, once; tags that run low together are reserved in one transaction;
# a tag that can't be served does not hold up the others.
#
# pg_regress can't reach it: the refill worker has to be stopped, and the
# buffers watched while it works.
use strict;
use warnings FATAL => 'all';

use LeafTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = leaf_ready_node('main', 'leaf.segment_duration = 0');

sub draw
{
	my ($tag, $count) = @_;

	return $node->safe_psql('postgres',
		"SELECT max(leaf_segment_nextval('$tag')) FROM generate_series(1, $count)");
}

sub status
{
	my ($tag, $column) = @_;

	return $node->safe_psql('postgres',
		"SELECT $column FROM leaf_segment_status WHERE biz_tag = '$tag'");
}

sub max_id
{
	my ($tag) = @_;

	return $node->safe_psql('postgres',
		"SELECT max_id FROM leaf_alloc WHERE biz_tag = '$tag'");
}

$node->safe_psql('postgres',
	"INSERT INTO leaf_alloc (biz_tag, step) VALUES ('t', 100), ('late', 100)");

# At 10 percent, as by default.
is(draw('t', 9), 9, 'ids begin at 1');
is(max_id('t'), 101, 'below the threshold, one segment is reserved');
draw('t', 1);
$node->poll_query_until('postgres',
	"SELECT next_segment_start = 101 AND next_segment_end = 201 FROM leaf_segment_status WHERE biz_tag = 't'"
) or die 'the next segment did not come';
is(max_id('t'), 201, 'at the threshold, the next one is');
draw('t', 80);
is(status('t', 'refills'), 2, 'one request a segment, however often it is passed');
is(draw('t', 20), 110, 'ids go on in the second segment');
is(status('t', 'waits'), 1, 'only the first call has waited');

# The article's 80 percent.
$node->append_conf('postgresql.conf', 'leaf.prefetch_threshold = 80');
$node->reload;
$node->poll_query_until('postgres', "SHOW leaf.prefetch_threshold", '80');
draw('late', 79);
is(max_id('late'), 101, 'below 80 percent, one segment is reserved');
draw('late', 1);
$node->poll_query_until('postgres',
	"SELECT max_id = 201 FROM leaf_alloc WHERE biz_tag = 'late'")
  or die 'the next segment did not come at 80 percent';
pass('at 80 percent, the next one is');

# With the worker stopped, several tags run out; it then serves them all in
# one transaction, but for one whose row is locked.
my @tags = map { "batch $_" } 1 .. 5;
$node->safe_psql('postgres',
	"INSERT INTO leaf_alloc (biz_tag) SELECT 'batch ' || i FROM generate_series(0, 5) AS i");
my $locker = $node->background_psql('postgres');
$locker->query_safe("BEGIN; SELECT FROM leaf_alloc WHERE biz_tag = 'batch 0' FOR UPDATE;");

my $worker = worker_pid($node, 'leaf refill', 'postgres');
kill('STOP', $worker);
my @clients = map { $node->background_psql('postgres') } 0 .. 5;
foreach my $i (0 .. 5)
{
	$clients[$i]->query_until(qr/^/, "SELECT leaf_segment_nextval('batch $i');\n");
}
$node->poll_query_until('postgres',
	"SELECT count(*) = 6 FROM pg_stat_activity WHERE query LIKE 'SELECT leaf_segment_nextval%' AND wait_event_type = 'Extension'"
) or die 'the calls do not wait';
kill('CONT', $worker);

$node->poll_query_until('postgres',
	"SELECT count(*) = 5 FROM leaf_segment_status WHERE biz_tag LIKE 'batch%' AND segment_start = 1")
  or die 'the tags were not served';
is( $node->safe_psql('postgres',
		"SELECT count(DISTINCT xmin::text) FROM leaf_alloc WHERE biz_tag IN ('"
		  . join("', '", @tags) . "')"),
	1,
	'tags that run low together are reserved in one transaction');
is( $node->safe_psql('postgres', "SELECT max_id FROM leaf_alloc WHERE biz_tag = 'batch 0'"),
	1,
	'a locked row holds up its own tag alone');

$locker->query_safe('COMMIT;');
$node->poll_query_until('postgres',
	"SELECT count(*) = 6 FROM leaf_segment_status WHERE biz_tag LIKE 'batch%' AND segment_start = 1")
  or die 'the locked tag was not served after the lock was gone';
pass('and it is served once the lock is gone');

# In the last segment below the end of bigint, calls do not ask for another.
$node->safe_psql('postgres',
	"INSERT INTO leaf_alloc (biz_tag, max_id) VALUES ('end', 9223372036854775757)");
draw('end', 45);
$node->poll_query_until('postgres', "SELECT refills = 2 FROM leaf_segment_status WHERE biz_tag = 'end'")
  or die 'the end was not found';
draw('end', 1) foreach 1 .. 4;
is(status('end', 'refills'), 2, 'the end of bigint is found once');

$_->quit foreach @clients, $locker;
$node->stop;
done_testing();
