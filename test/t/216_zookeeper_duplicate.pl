# G1: of two servers with one node address the second is refused until the
# first is gone, whether it is a stranger or a copy of the first.
#
# Needs two servers in one cluster.
use strict;
use warnings FATAL => 'all';

use LeafTest;
use LeafTest::ZooKeeperNode;
use Test::More;

my $zk = fast_zookeeper();
my $first = zookeeper_node('first', $zk->connect_string);
my $second = zookeeper_node('second', $zk->connect_string);

$first->start;
create_extension($first);
ok(wait_for_state($first, 'running'), 'the first runs');
$second->start;
create_extension($second);
ok(wait_for_state($second, 'refused|duplicate_node'), 'the second is refused');
like(status($second, 'detail'), qr/registered in ZooKeeper as "10\.1\.0\.1:5432"/, 'and says why');
like(alarm_of($second, 'snowflake'), qr/duplicate_node/, 'there is an alarm');
is(status($first, 'state'), 'running', 'the first is not disturbed');
my $id = next_id($first);

# ZooKeeper away does not make it less of a duplicate.
$zk->freeze;
wait_until('the second to miss ZooKeeper',
	sub { status($second, 'zookeeper_state') ne 'connected' });
is(status($second, "state || '|' || reason"), 'refused|duplicate_node', 'still refused without ZooKeeper');
$zk->thaw;

$first->stop('fast');
ok(wait_for_state($second, 'running', 3), 'the second runs as soon as the first has stopped');
is(status($second, 'worker_id'), 0, 'with the id of the address');
my $next = next_id($second);
cmp_ok($next, '>', $id, 'its ids are above those of the first');

# The other way round, and by kill -9: the session has to end.
$first->start;
ok(wait_for_state($first, 'refused|duplicate_node'), 'now the first is refused');
crash_postmaster($second);
ok(wait_for_state($first, 'running'), 'until the session of the second has ended');
$id = next_id($first);
cmp_ok($id, '>', $next, 'its ids are above those of the second');

# A copy of the data directory, state file and all, is another server.
$first->stop('fast');
$first->backup_fs_cold('copy');
$first->start;
ok(wait_for_state($first, 'running'), 'the original runs');
my $copy = PostgreSQL::Test::Cluster->new('copy');
$copy->init_from_backup($first, 'copy');
$copy->start;
ok(wait_for_state($copy, 'refused|duplicate_node'), 'its copy is refused');
is(status($first, 'state'), 'running', 'the original is not disturbed');

# The same copy where the original was killed: it has to wait as well.
crash_postmaster($first);
ok(wait_for_state($copy, 'running'), 'the copy runs once the session has ended');
$copy->stop('fast');
done_testing();
