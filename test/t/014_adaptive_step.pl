# G4: the step follows the load. A load of a million ids a second that starts on
# a step of 100 settles within a few refills; an idle tag comes back down; a step
# changed in the table holds at the next refill; leaf.segment_duration = 0 keeps
# the step as it is.
#
# Not for pg_regress: it needs a load from several sessions over a time, and
# settings of the server that are changed in between.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeafTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = leaf_ready_node('main');
$node->safe_psql('postgres', "INSERT INTO leaf_alloc (biz_tag, step) VALUES ('hot', 100), ('calm', 100), ('fixed', 100), ('huge', 2000000)");

sub status
{
	my ($columns, $tag) = @_;

	return $node->safe_psql('postgres', "SELECT $columns FROM leaf_segment_status WHERE biz_tag = '$tag'");
}

sub set
{
	my ($setting, $value) = @_;

	$node->append_conf('postgresql.conf', "$setting = $value");
	$node->reload;
	$node->poll_query_until('postgres', "SELECT current_setting('$setting') = '$value'")
	  or die "timed out waiting for $setting";
	return;
}

# Two clients in a tight loop.
my $script = PostgreSQL::Test::Utils::tempdir() . '/loop.sql';
append_to_file($script, "SELECT count(leaf_segment_nextval('hot')) FROM generate_series(1, 20000);\n");
$node->command_ok([ 'pgbench', '-n', '-c', '2', '-j', '2', '-T', '10', '-f', $script, 'postgres' ],
	'ten seconds of two clients in a tight loop');
my ($issued, $refills, $waits, $max_wait) = split /\|/, status('ids_issued, refills, waits, max_wait_ms', 'hot');
note "$issued ids, $refills refills, $waits waits, longest $max_wait ms";
cmp_ok($issued, '>', 100_000, 'a load');
cmp_ok($waits, '<', 10, 'waits of ten seconds at full speed, from step 100');
cmp_ok($refills, '<', 200, 'a few refills');
cmp_ok(status('step', 'hot'), '>', 10_000, 'the step has followed');
cmp_ok(status('step', 'hot'), '<=', 1_000_000, 'up to leaf.max_step');
is(status('base_step', 'hot'), '100', 'base_step is the table\'s');
is($node->safe_psql('postgres', "SELECT step FROM leaf_alloc WHERE biz_tag = 'hot'"), '100', 'which stays as it was');
is($node->safe_psql('postgres', "SELECT max_id >= next_id FROM leaf_alloc JOIN leaf_segment_status USING (biz_tag) WHERE biz_tag = 'hot'"),
	't', 'all ids are reserved');

# It comes back down: the same tag with a few ids a second only.
set('leaf.segment_duration', '1s');
set('leaf.max_step', '20000');
my $up = wait_until('the step to go up', sub {
	$node->safe_psql('postgres', "SELECT count(leaf_segment_nextval('calm')) FROM generate_series(1, 300000)");
	my $step = status('step', 'calm');
	return $step > 1000 ? $step : 0;
});
pass('up under load');
cmp_ok($up, '<=', 20_000, 'not above leaf.max_step');
wait_until('the step to come down', sub {
		$node->safe_psql('postgres', "SELECT count(leaf_segment_nextval('calm')) FROM generate_series(1, 200)");
		status('step', 'calm') < $up / 4;
	}, 150);
pass('and down again');

# A step changed in the table holds at the next refill: between it and
# leaf.max_step, and as it is above that.
$node->safe_psql('postgres', "UPDATE leaf_alloc SET step = 15000 WHERE biz_tag = 'calm'");
$node->safe_psql('postgres', "SELECT leaf_segment_nextval('calm')");
is(status('base_step', 'calm'), '15000', 'a step changed in the table');
cmp_ok(status('segment_end - segment_start', 'calm'), '>=', 15_000, 'holds at the next refill');
cmp_ok(status('step', 'calm'), '>=', 15_000, 'and after');
$node->safe_psql('postgres', "UPDATE leaf_alloc SET step = 50 WHERE biz_tag = 'calm'");
$node->safe_psql('postgres', "SELECT leaf_segment_nextval('calm')");
is(status('base_step', 'calm'), '50', 'a lower step is taken over at once');
$node->safe_psql('postgres', "SELECT leaf_segment_nextval('huge')");
is(status('segment_end - segment_start', 'huge'), '2000000', 'a step above leaf.max_step is used as it is');
is(status('step', 'huge'), '2000000', 'and stays so');

# Never adapts.
set('leaf.segment_duration', '0');
$node->safe_psql('postgres', "SELECT count(leaf_segment_nextval('fixed')) FROM generate_series(1, 20000)");
is(status('step, segment_end - segment_start', 'fixed'), '100|100', 'leaf.segment_duration = 0: always the step');
cmp_ok(status('refills', 'fixed'), '>=', 200, 'and so many refills');

# The prefetch threshold: nothing is fetched below it, the next segment above.
set('leaf.prefetch_threshold', '50');
$node->safe_psql('postgres', "INSERT INTO leaf_alloc (biz_tag, step) VALUES ('prefetch', 100)");
$node->safe_psql('postgres', "SELECT count(leaf_segment_nextval('prefetch')) FROM generate_series(1, 45)");
is(status('next_id, segment_start, segment_end, next_segment_start IS NULL, refills', 'prefetch'),
	'46|1|101|t|1', 'not fetched below leaf.prefetch_threshold');
$node->safe_psql('postgres', "SELECT count(leaf_segment_nextval('prefetch')) FROM generate_series(1, 10)");
$node->poll_query_until('postgres', "SELECT next_segment_start = 101 FROM leaf_segment_status WHERE biz_tag = 'prefetch'")
  or die 'timed out waiting for the next segment';
is(status('next_id, segment_start, segment_end, next_segment_start, next_segment_end, refills', 'prefetch'),
	'56|1|101|101|201|2', 'fetched above it');
is(status('waits', 'prefetch'), '1', 'nobody waited but the first');

done_testing();
