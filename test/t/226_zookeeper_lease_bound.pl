# G1: with leaf.worker_id_ttl no id is issued past the lease even where the
# node worker can't close the gate in time (stopped, or stuck in a flush), and
# however far ahead the time bound is kept.
#
# Needs a ZooKeeper whose counter has run out, and two servers at once.
use strict;
use warnings FATAL => 'all';

use LeafTest;
use LeafTest::ZooKeeperNode;
use Test::More;
use Time::HiRes qw(time);

my $zk = fast_zookeeper();
my $client = LeafTest::ZooKeeperClient->new($zk->connect_string);
my $forever = '/snowflake/leaf/forever';

$client->create_path("/snowflake/leaf/$_") foreach 'forever', 'temporary';
foreach my $i (0 .. 1022)
{
	$client->delete($client->create("$forever/x:1-", '', LeafTest::ZooKeeperClient::SEQUENTIAL));
}

my @node = map { zookeeper_node("n$_", $zk->connect_string, "leaf.node_address = '10.3.0.$_:5432'",
		'leaf.worker_id_ttl = 4s', 'leaf.time_bound_ahead = 60s', 'leaf.wait_timeout = 200ms') } (1, 2);
$node[0]->start;
create_extension($node[0]);
ok(wait_for_state($node[0], 'running'), 'the owner of the last id runs');
next_id($node[0]);
is($node[0]->safe_psql('postgres', "SELECT time_bound < clock_timestamp() + interval '5 s' FROM leaf_snowflake_status"),
	't', 'its time bound is within its lease');

# Busy for longer than the bound, then stuck.
my $end = time + 6;
my $failed = 0;
while (time < $end)
{
	my ($rc) = $node[0]->psql('postgres', 'SELECT leaf_snowflake_nextval()');
	$failed++ if $rc != 0;
}
is($failed, 0, 'calls go on for longer than the lease, as it is renewed');

my $worker = worker_pid($node[0], 'leaf node');
kill('STOP', $worker);
$node[1]->start;
create_extension($node[1]);
ok(wait_for_state($node[1], 'running'), 'a contender runs');
is(status($node[1], 'worker_id'), 1023, 'with the id of the one that is stuck');
my $first = next_id($node[1]);
my ($rc, $id) = $node[0]->psql('postgres', 'SELECT leaf_snowflake_nextval()');
kill('CONT', $worker);
isnt($rc, 0, 'the one that is stuck issues nothing any more') || diag("both issue ids of worker 1023: $first and $id");
$_->stop('immediate') foreach @node;
done_testing();
