# G5, G10: where ZooKeeper lets a node read and not write, at whichever step,
# the node says so, and neither it nor ZooKeeper is kept busy.
#
# Needs a ZooKeeper with nodes of other rights, and the CPU time of a process.
use strict;
use warnings FATAL => 'all';

use LeafTest;
use LeafTest::ZooKeeperNode;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time sleep);

my $zk = fast_zookeeper();
my $client = LeafTest::ZooKeeperClient->new($zk->connect_string);

# Nodes that all may read and nobody may write, and back.
sub make_read_only { my ($path) = @_; return set_acl($path, 1 | 16); }
sub make_writable { my ($path) = @_; return set_acl($path, 31); }

sub set_acl
{
	my ($path, $perms) = @_;

	$client->_call(7, pack('N/a* N N N/a* N/a* l>', $path, 1, $perms, 'world', 'anyone', -1))
	  // die "could not set the rights of $path: $client->{error}";
	return;
}

# Milliseconds of CPU that the node worker takes in a second.
sub cpu_ms
{
	my ($node) = @_;
	my $pid = worker_pid($node, 'leaf node');
	my $ticks = sub { my @f = split ' ', slurp_file("/proc/$pid/stat") =~ s/.*\) //sr; $f[11] + $f[12] };
	my $before = $ticks->();

	sleep(2);
	return ($ticks->() - $before) * 10 / 2;
}

# Operations that ZooKeeper has taken in a second.
sub operations
{
	my $count = sub { ($zk->ask(0, 'srvr') // '') =~ /^Received: (\d+)/m; $1 };
	my $before = $count->();

	sleep(2);
	return ($count->() - $before) / 2;
}

# A new one that may register its address but make no node.
my $new = zookeeper_node('new', $zk->connect_string . '/new');
my $peer = '/new/snowflake/leaf/forever/10.8.0.1:80-0000000000';
$client->create_path("/new/snowflake/leaf/$_") foreach 'forever', 'temporary';
$client->create('/new/snowflake/leaf/forever/10.8.0.1:80-', node_data('10.8.0.1', 80, int(time * 1000)),
	LeafTest::ZooKeeperClient::SEQUENTIAL);
make_read_only('/new/snowflake/leaf/forever');
$new->start;
create_extension($new);
wait_until('the alarm', sub { alarm_of($new, 'zookeeper') =~ /create its node: not authorized/ });
pass('an alarm');
cmp_ok(cpu_ms($new), '<', 200, 'a new node without rights: the worker is idle');
ok(wait_for_state($new, 'refused|no_worker_id', 10), 'it is refused');
like(status($new, 'detail') // '', qr/not authorized/, 'and says why');

# Its clock was right when it was compared; since then it has moved away.
$client->set($peer, node_data('10.8.0.1', 80, int(time * 1000) + 60000));
make_writable('/new/snowflake/leaf/forever');
wait_until('an end of it', sub {
	$client->set($peer, node_data('10.8.0.1', 80, int(time * 1000) + 60000));
	status($new, "state || coalesce('|' || reason, '')") =~ /running|clock_skewed/;
});
is(status($new, 'reason'), 'clock_skewed', 'it is compared again when it has the rights');
wait_until('it to run', sub {
	$client->set($peer, node_data('10.8.0.1', 80, int(time * 1000)));
	status($new, 'state') eq 'running';
});
is(status($new, 'worker_id'), 1, 'and starts when its clock is right, with the next id');
$new->stop('fast');

# One whose own node it may not write, and whose clock was behind its report.
my $behind = zookeeper_node('behind', $zk->connect_string . '/behind');
$client->create_path("/behind/snowflake/leaf/$_") foreach 'forever', 'temporary';
my $own = '/behind/snowflake/leaf/forever/10.1.0.1:5432-0000000000';
my $ahead_ms = int(time * 1000) + 4000;
$client->create('/behind/snowflake/leaf/forever/10.1.0.1:5432-', node_data('10.1.0.1', 5432, $ahead_ms), LeafTest::ZooKeeperClient::SEQUENTIAL);
make_read_only($own);
$behind->start;
create_extension($behind);
ok(wait_for_state($behind, 'refused|clock_behind'), 'behind its own report');
wait_until('the alarm', sub { alarm_of($behind, 'zookeeper') =~ /write its node: not authorized/ });
cmp_ok(cpu_ms($behind), '<', 200, 'the worker is idle');
cmp_ok(operations(), '<', 50, 'and so is ZooKeeper');
ok(wait_for_state($behind, 'refused|no_worker_id'), 'it is refused');
like(status($behind, 'detail'), qr/not authorized/, 'and says why');
$behind->stop('fast');

done_testing();
