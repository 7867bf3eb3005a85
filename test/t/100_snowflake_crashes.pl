# G1, G3: ids stay unique and ordered over kill -9 of the postmaster, of a
# backend and of the node worker, each with an immediate restart.
# pg_regress has no server that it may kill.
use strict;
use warnings FATAL => 'all';

use LeafTest;
use LeafTest::Ids;
use LeafTest::Snowflake;
use PostgreSQL::Test::Utils;
use Test::More;

my $rounds = 30;

# A short bound, so that many rounds get past it.
# A disk that stalls under other tests is no error of ours: calls may wait.
my $node = snowflake_node('main', 1, "leaf.time_bound_ahead = '300ms'", "leaf.wait_timeout = '60s'");
my $ids = LeafTest::Ids->new;
my %done = (postmaster => 0, backend => 0, worker => 0);

$ids->start($node, 'SELECT leaf_snowflake_nextval() FROM generate_series(1, 20)', clients => 4);
foreach my $round (1 .. $rounds)
{
	my $victim = (qw(postmaster backend worker))[ $round % 3 ];

	$ids->wait_for_more(500);
	if ($victim eq 'postmaster')
	{
		crash_postmaster($node);
		$node->start;
		$done{$victim}++;
	}
	elsif ($victim eq 'backend')
	{
		$done{$victim} += crash_backend($node);
	}
	else
	{
		$done{$victim} += crash_worker($node, 'leaf node');
	}
}
$ids->wait_for_more(500);
$ids->stop;

is($done{postmaster}, $rounds / 3, 'the postmaster was killed in a third of the rounds');
is($done{backend}, $rounds / 3, 'a backend was killed in a third of the rounds');
is($done{worker}, $rounds / 3, 'the node worker was killed in a third of the rounds');
$ids->check_ok("ids are unique and ordered over $rounds crashes");
unlike($ids->errors, qr/ERROR/, 'no call failed once the server was back');
is($node->safe_psql('postgres', 'SELECT count(*) FROM leaf_alarms'), 0, 'no alarm is left');

$node->stop;
my $unhindered = seconds_of(sub { $node->start });

# After a crash of the machine the first call is a wait of at most the bound, not
# an error; after one of the server alone, no wait.
$node->append_conf('postgresql.conf', "leaf.time_bound_ahead = '3s'");
$node->reload;
wait_until('a bound that is 2 s ahead', sub {
	next_id($node);
	status($node, "time_bound > clock_timestamp() + interval '2 s'") eq 't';
});
crash_postmaster($node);
my $restart = seconds_of(sub {
	$node->start;
	next_id($node);
});
cmp_ok($restart, '<', seconds_allowed(2, $unhindered), 'a restarted server issues ids in less than two seconds');
crash_machine($node);
$node->start;
my $seconds = seconds_of(sub { next_id($node) });
cmp_ok($seconds, '<', 3 + seconds_allowed(1, $unhindered), 'the first call after a crash succeeds within leaf.time_bound_ahead');

done_testing();
