# G10: a cluster that was made by a ZooKeeper whose clock was ahead of the one
# that leads now: a new node does not wait for the difference.
#
# Needs a ZooKeeper with another clock.
use strict;
use warnings FATAL => 'all';

use LeafTest;
use LeafTest::ZooKeeperNode;
use Test::More;
use Time::HiRes qw(time);

my $zk = fast_zookeeper();
my $proxy = LeafTest::ZooKeeperProxy->new($zk->connect_string);
my $node = zookeeper_node('main', $proxy->address);

$proxy->shift_clock(-60000);
$node->start;
create_extension($node);
my $start = time;
ok(wait_for_state($node, 'running'), 'a new node runs');
cmp_ok(time - $start, '<', 30, 'at once');
$node->stop;
done_testing();
