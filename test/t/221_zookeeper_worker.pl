# G6: the node worker leaves within a second of SIGTERM even with ZooKeeper
# frozen; the client's threads in it handle no signal; it does not grow with
# sessions that come and go; and its crash is an ordinary restart.
#
# Needs the processes and threads of the server, from /proc.
use strict;
use warnings FATAL => 'all';

use LeafTest;
use LeafTest::ZooKeeperNode;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $zk = fast_zookeeper();
my $proxy = LeafTest::ZooKeeperProxy->new($zk->connect_string);
my $node = zookeeper_node('main', $proxy->address,
	'leaf.zookeeper_session_timeout = 1s');

$node->start;
create_extension($node);
ok(wait_for_state($node, 'running'), 'runs');

# Threads: each blocks every signal that can be blocked. 32 and 33 are the C
# library's own, 9 and 19 nobody can block.
my $pid = worker_pid($node, 'leaf node');
my %mask;
foreach my $task (glob "/proc/$pid/task/*")
{
	my ($tid) = $task =~ /(\d+)$/;
	$mask{$tid} = $1 if slurp_file("$task/status") =~ /^SigBlk:\s+(\w+)$/m;
}
is(scalar(keys %mask), 3, 'the worker and two threads of the client');
foreach my $tid (grep { $_ != $pid } sort keys %mask)
{
	my @blocked = reverse split(//, unpack('B64', pack('H16', $mask{$tid})));
	my @open = grep { !$blocked[ $_ - 1 ] } 1 .. 64;

	is(join(' ', grep { !/^(9|19|32|33)$/ } @open), '', 'a thread of the client blocks all signals');
}
like($mask{$pid}, qr/^0{8}/, 'the worker itself does not');

# The memory and descriptors of the worker.
sub figures
{
	my $status = slurp_file("/proc/$pid/status");
	my @descriptors = glob "/proc/$pid/fd/*";

	return {
		rss => $status =~ /^VmRSS:\s+(\d+)/m ? $1 : 0,
		threads => $status =~ /^Threads:\s+(\d+)/m ? $1 : 0,
		descriptors => scalar(@descriptors)
	};
}

# Sessions that end, one after the other, each once it has its ephemeral.
sub expire_sessions
{
	my ($count) = @_;

	$proxy->expire_next($count);
	$proxy->expire;
	wait_until('sessions to expire', sub { !$proxy->left_to_expire }, 180);
	ok( $node->poll_query_until('postgres',
			"SELECT zookeeper_state = 'connected' AND last_report_at > now() - interval '1s' FROM leaf_snowflake_status"),
		"$count sessions later it is connected");
	return;
}

my $first_session = $proxy->sessions;
expire_sessions(200);
my $before = figures();
expire_sessions(800);
my $after = figures();
cmp_ok($proxy->sessions - $first_session, '>=', 1000, 'a thousand sessions');
is($after->{threads}, $before->{threads}, 'no thread more');
is($after->{descriptors}, $before->{descriptors}, 'no descriptor more');
cmp_ok($after->{rss} - $before->{rss}, '<', 512, 'no memory more')
  or diag("kB: $before->{rss}, then $after->{rss}");
is(worker_pid($node, 'leaf node'), $pid, 'it is the same process');
is(status($node, "state || '|' || worker_id"), 'running|0', 'it runs with its id');

# SIGTERM, with the session up as far as the client knows, and down.
foreach my $how ('frozen just now', 'frozen for long')
{
	$pid = worker_pid($node, 'leaf node');
	$zk->freeze;
	wait_until('the loss of the connection',
		sub { status($node, 'zookeeper_state') ne 'connected' })
	  if $how eq 'frozen for long';
	my $from = time;
	kill('TERM', $pid);
	wait_until('the worker to leave', sub { process_gone($pid) });
	cmp_ok(time - $from, '<', 1, "$how: the worker leaves within a second");
	ok(wait_for_state($node, 'running'), "$how: its successor runs");
	$zk->thaw;
	ok( $node->poll_query_until('postgres',
			"SELECT zookeeper_state = 'connected' FROM leaf_snowflake_status"),
		"$how: and is connected once ZooKeeper is");
}

# A stop of the whole server.
$zk->freeze;
my $from = time;
$node->stop('fast');
cmp_ok(time - $from, '<', 2, 'the server stops with ZooKeeper frozen');
$zk->thaw;
$node->start;
ok(wait_for_state($node, 'running'), 'and runs again');

# A crash.
my $id = next_id($node);
crash_worker($node, 'leaf node');
ok(wait_for_state($node, 'running'), 'runs after a crash of the worker');
is(status($node, 'worker_id'), 0, 'with the same worker id');
cmp_ok(next_id($node), '>', $id, 'ids go on');
$node->stop('fast');
done_testing();
