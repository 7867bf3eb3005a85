# G7: with three ZooKeeper servers a node does not notice that one is killed,
# be it the leader, nor that all are restarted one after the other.
#
# Needs an ensemble.
use strict;
use warnings FATAL => 'all';

use LeafTest;
use LeafTest::ZooKeeperNode;
use Test::More;

my $zk = fast_zookeeper(servers => 3);
my $node = zookeeper_node('main', $zk->connect_string . '/chroot');
my $id = 0;

$node->start;
create_extension($node);
ok(wait_for_state($node, 'running'), 'runs');

sub check_runs
{
	my ($what) = @_;

	# a report that was sent and confirmed after this moment
	my $now = $node->safe_psql('postgres', 'SELECT clock_timestamp()');
	ok( $node->poll_query_until('postgres',
			"SELECT last_report_at > '$now' AND state = 'running' AND worker_id = 0 FROM leaf_snowflake_status"),
		"$what: reports go on");
	my $next = next_id($node);
	cmp_ok($next, '>', $id, "$what: ids go on");
	$id = $next;
	is(alarm_of($node, 'zookeeper'), '', "$what: no alarm is left");
	return;
}

check_runs('three servers');

my ($follower) = grep { $zk->mode($_) eq 'follower' } $zk->all;
$zk->kill($follower);
check_runs('a follower killed');
$zk->start($follower);

my $leader = $zk->leader;
$zk->kill($leader);
check_runs('the leader killed');
$zk->start($leader);

foreach my $i ($zk->all)
{
	$zk->stop($i);
	check_runs("server $i stopped");
	$zk->start($i);
}
check_runs('all restarted');

# Without a majority there is nothing to ask; a node goes on all the same.
$zk->kill(0, 1);
wait_until('the alarm', sub { alarm_of($node, 'zookeeper') });
my $next = next_id($node);
cmp_ok($next, '>', $id, 'no majority: ids go on');
$id = $next;
$zk->start(0, 1);
wait_until('the end of the alarm', sub { !alarm_of($node, 'zookeeper') });
check_runs('majority back');

my $client = LeafTest::ZooKeeperClient->new($zk->connect_string(0));
is_deeply([ forever($client, '/chroot') ], ['10.1.0.1:5432-0000000000'],
	'no second node was made');
$node->stop('fast');
done_testing();
