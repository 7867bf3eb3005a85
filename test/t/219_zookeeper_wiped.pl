# G1: where all data in ZooKeeper is lost a running node puts itself back
# under the worker id that it holds, in a way that nobody else can get that
# id, and gives it up, with an alarm, only where another node has it already.
#
# Needs a ZooKeeper whose data can be removed.
use strict;
use warnings FATAL => 'all';

use LeafTest;
use LeafTest::ZooKeeperNode;
use Test::More;
use Time::HiRes qw(time);

my $zk = fast_zookeeper();
my $forever = '/snowflake/leaf/forever';
my @nodes = map { zookeeper_node("n$_", $zk->connect_string,
		"leaf.node_address = '10.4.0.$_:5432'") } (1, 2, 3);

# Ids 0 and 71, so that there is a counter to be moved.
my $client = LeafTest::ZooKeeperClient->new($zk->connect_string);
my @held = (0, 71);
foreach my $i (0, 1)
{
	$nodes[$i]->start;
	create_extension($nodes[$i]);
	ok(wait_for_state($nodes[$i], 'running'), "node $i runs");
	is(status($nodes[$i], 'worker_id'), $held[$i], "node $i has its id");
	next if $i > 0;
	foreach (1 .. 70)
	{
		$client->delete(
			$client->create("$forever/x:1-", '', LeafTest::ZooKeeperClient::SEQUENTIAL));
	}
}
my @ids = map { next_id($_) } @nodes[ 0, 1 ];

# A new node waits for ZooKeeper as well, and must not be given id 0.
$zk->kill;
$zk->wipe;
$nodes[2]->start;
create_extension($nodes[2]);
ok(wait_for_state($nodes[2], 'refused|no_worker_id'), 'a new node waits for ZooKeeper');
$zk->start;
$client = LeafTest::ZooKeeperClient->new($zk->connect_string);
ok(wait_for_state($nodes[2], 'running'), 'the new node runs');
cmp_ok(status($nodes[2], 'worker_id'), '>', 71, 'and has an id that nobody holds');
is_deeply(
	[ grep { !/^10\.4\.0\.3:/ } forever($client) ],
	[ '10.4.0.1:5432-0000000000', '10.4.0.2:5432-0000000071' ],
	'the others are back under their ids');
foreach my $i (0, 1)
{
	is(status($nodes[$i], "state || '|' || worker_id"), "running|$held[$i]", "node $i runs on");
	cmp_ok(next_id($nodes[$i]), '>', $ids[$i], "node $i: ids go on");
	wait_until("the alarm of node $i to be over", sub { !alarm_of($nodes[$i], 'zookeeper') });
}

# Lost while the server was down: the state file knows the id.
$nodes[1]->stop('fast');
$client->delete("$forever/10.4.0.2:5432-0000000071");
$nodes[1]->start;
ok(wait_for_state($nodes[1], 'running'), 'a node whose data was lost while it was down');
is(status($nodes[1], 'worker_id'), 71, 'has its id again');

# Lost, and given to somebody else.
my $id = next_id($nodes[1]);
$client->delete("$forever/10.4.0.2:5432-0000000071");
$client->create("$forever/10.9.9.9:1-0000000071", node_data('10.9.9.9', 1, int(time * 1000)));
wait_until('another id', sub { (status($nodes[1], 'worker_id') // '') !~ /^(71)?$/ });
ok(wait_for_state($nodes[1], 'running'), 'it runs on with another id');
like(alarm_of($nodes[1], 'zookeeper'), qr/worker id 71 .* not its own/, 'there is an alarm');
cmp_ok(next_id($nodes[1]), '>', $id, 'ids go on');
is(status($nodes[0], 'worker_id'), 0, 'the others keep theirs');
$_->stop('fast') foreach @nodes;
done_testing();
