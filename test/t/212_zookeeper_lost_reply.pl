# G1: where the answer to a create is lost the node that may have been created
# is found, and no second one is made; whichever create it is.
#
# Needs a network that loses one chosen answer.
use strict;
use warnings FATAL => 'all';

use LeafTest;
use LeafTest::ZooKeeperNode;
use Test::More;

use constant {
	CREATE => 1,
	SET => 5
};

my $zk = fast_zookeeper();
my $client = LeafTest::ZooKeeperClient->new($zk->connect_string);
my $proxy = LeafTest::ZooKeeperProxy->new($zk->connect_string);
my $node = zookeeper_node('main', $proxy->address);
my @forever;

# The parents are there, so a start has two creates: the ephemeral, then the
# node under forever.
$client->create_path("/snowflake/leaf/$_") foreach 'forever', 'temporary';

foreach my $skip (0, 1)
{
	my $what = $skip ? 'node under forever' : 'ephemeral';

	$client->delete("/snowflake/leaf/forever/$_") foreach forever($client);
	$proxy->drop_reply(CREATE, $skip);
	$node->start;
	create_extension($node) if $skip == 0;
	ok(wait_for_state($node, 'running'), "$what: runs after the answer was lost");
	is($proxy->dropped, $skip ? 3 : 1, "$what: the answer was lost");
	@forever = forever($client);
	is(scalar(@forever), 1, "$what: one node");
	is(status($node, 'worker_id'), $skip, "$what: its sequence is the worker id");
	is(scalar(my @temporary = $client->children('/snowflake/leaf/temporary')),
		1, "$what: one ephemeral");

	if ($skip == 0)
	{
		# The answer to a report: nothing comes of it.
		$proxy->drop_reply(SET);
		wait_until('a lost report', sub { $proxy->dropped == 2 });
	}
	$node->stop('fast');
	unlink($node->data_dir . '/leaf_node.state');
}
done_testing();
