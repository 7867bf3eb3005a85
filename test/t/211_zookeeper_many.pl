# G1: ten nodes that start for the first time at the same moment get ten
# different worker ids, and Leaf's counter has no hole.
#
# Needs ten servers and a ZooKeeper that is held until all of them wait for it.
use strict;
use warnings FATAL => 'all';

use LeafTest;
use LeafTest::ZooKeeperNode;
use Test::More;

my $zk = fast_zookeeper();
my $client = LeafTest::ZooKeeperClient->new($zk->connect_string);
my $model = zookeeper_node('model', $zk->connect_string);
my @nodes;

# One initdb for all: the extension is created, no worker has ever run.
$model->append_conf('postgresql.conf', "leaf.worker_id_source = 'none'");
$model->start;
create_extension($model);
$model->stop;
$model->backup_fs_cold('model');
foreach my $i (1 .. 10)
{
	my $node = PostgreSQL::Test::Cluster->new("n$i");

	$node->init_from_backup($model, 'model');
	$node->append_conf('postgresql.conf',
		"leaf.worker_id_source = 'zookeeper'\nleaf.node_address = '10.2.0.$i:5432'");
	push @nodes, $node;
}

$zk->freeze;
$_->start foreach @nodes;
foreach my $node (@nodes)
{
	ok(wait_for_state($node, 'refused|no_worker_id'), $node->name . ' waits')
	  if $node == $nodes[0];
}
$zk->thaw;
ok(wait_for_state($_, 'running'), $_->name . ' runs') foreach @nodes;

my @ids = sort { $a <=> $b } map { status($_, 'worker_id') } @nodes;
is_deeply(\@ids, [ 0 .. 9 ], 'ten different worker ids');
is(scalar(my @forever = forever($client)), 10, 'ten nodes');

# Each sees all others, and each the same ids.
ok( $nodes[0]->poll_query_until(
		'postgres',
		"SELECT count(*) = 10 AND bool_and(alive) AND count(DISTINCT worker_id) = 10
			AND sum(is_self::int) = 1 FROM leaf_snowflake_peers"),
	'the first sees ten peers alive, itself among them');

# All clocks are one, so what is measured is the measurement's error.
ok( $nodes[0]->poll_query_until(
		'postgres',
		"SELECT count(*) = 10 AND max(abs(clock_offset_ms)) <= 5 FROM leaf_snowflake_peers"),
	'their clocks differ by 5 ms at most');
$_->stop('immediate') foreach @nodes;
done_testing();
