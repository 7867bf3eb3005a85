# G1, G3: ids of many clients in several databases are unique and ordered, for
# as long as LEAF_TEST_SECONDS (60).
# pg_regress has one client.
use strict;
use warnings FATAL => 'all';

use LeafTest;
use LeafTest::Ids;
use LeafTest::Snowflake;
use PostgreSQL::Test::Utils;
use Test::More;

my $seconds = $ENV{LEAF_TEST_SECONDS} // 60;
# A disk that stalls under other tests is no error of ours: calls may wait.
my $node = snowflake_node('main', 1023, "leaf.sequence_start = 'zero'", "leaf.wait_timeout = '60s'");
my $ids = LeafTest::Ids->new;

$node->safe_psql('postgres', 'CREATE DATABASE other');
create_extension($node, 'other');
$ids->start($node, 'SELECT leaf_snowflake_nextval()', clients => 8);
$ids->start($node, 'SELECT leaf_snowflake_nextval()', clients => 8, dbname => 'other');

my $end = time + $seconds;
wait_until('the time to pass', sub { time >= $end }, $seconds + 60);
$ids->stop;

$ids->check_ok("ids of 16 clients are unique and ordered over $seconds s");
is($ids->errors, '', 'no call failed');
is( $node->safe_psql('postgres', 'SELECT count(*) FROM leaf_alarms'),
	0, 'no alarm is left');

# All of them are counted, whichever backend issued them.
is(status($node, 'ids_issued'), $ids->count, 'the view counts every id');

# From zero, and on by one: a millisecond has the sequences 0, 1, 2, ...
$node->safe_psql('postgres',
	'CREATE TABLE burst AS SELECT leaf_snowflake_nextval() AS id FROM generate_series(1, 20000)');
is( $node->safe_psql(
		'postgres', q(
	SELECT count(*) FROM (
		SELECT min(p.sequence) AS first, max(p.sequence) + 1 - count(*) AS holes
		FROM burst, leaf_snowflake_parse(id) p GROUP BY p.generated_at) ms
	WHERE first <> 0 OR holes <> 0)),
	0,
	'leaf.sequence_start = zero begins each millisecond with 0');

# At random it begins in 0..99.
$node->append_conf('postgresql.conf', "leaf.sequence_start = 'random'");
$node->reload;
wait_until('the reload to arrive', sub {
	$node->safe_psql('postgres', 'SHOW leaf.sequence_start') eq 'random';
});
$node->safe_psql('postgres',
	'CREATE TABLE random AS SELECT leaf_snowflake_nextval() AS id FROM generate_series(1, 200000)');
is( $node->safe_psql(
		'postgres', q(
	SELECT min(first) >= 0 AND max(first) BETWEEN 1 AND 99 AND count(DISTINCT first) > 5 FROM (
		SELECT min(p.sequence) AS first
		FROM random, leaf_snowflake_parse(id) p GROUP BY p.generated_at) ms)),
	't',
	'leaf.sequence_start = random begins in 0..99');

done_testing();
