# G1, G7: a node gets its worker id from ZooKeeper once, in Leaf's paths and
# data, and has the same one after every kind of restart.
#
# Needs a ZooKeeper and restarts of the server, which pg_regress has not.
use strict;
use warnings FATAL => 'all';

use LeafTest;
use LeafTest::Ids;
use LeafTest::ZooKeeperNode;
use Test::More;
use Time::HiRes qw(time);

my $zk = fast_zookeeper();
my $client = LeafTest::ZooKeeperClient->new($zk->connect_string);
# Its session outlives its kill -9, however long that takes to be noticed.
my $node = zookeeper_node('main', $zk->connect_string,
	'leaf.zookeeper_session_timeout = 30s');

# First start: neither chroot nor parents are there.
my $before_ms = int(time * 1000);
$node->start;
my $unhindered = time - $before_ms / 1000;
create_extension($node);
ok(wait_for_state($node, 'running'), 'first start');
is(status($node, 'worker_id'), 0, 'the first node gets worker id 0');
is_deeply(
	[ forever($client) ],
	['10.1.0.1:5432-0000000000'],
	'its node is named as Leaf names it');

my ($data, $stat) =
  $client->get('/snowflake/leaf/forever/10.1.0.1:5432-0000000000');
like(
	$data,
	qr/^\{"ip":"10\.1\.0\.1","port":"5432","timestamp":\d{13}\}$/,
	'its data is what Leaf writes');
is($stat->{owner}, 0, 'it is persistent');
($data, $stat) = $client->get('/snowflake/leaf/temporary/10.1.0.1:5432');
like(
	$data,
	qr/^\{"ip":"10\.1\.0\.1","port":"5432","timestamp":\d{13},"instance":"[0-9a-f]+"\}$/,
	'the ephemeral has the same fields first');
isnt($stat->{owner}, 0, 'it is ephemeral');
is(status($node, 'zookeeper_state'), 'connected', 'the view says connected');
ok( $node->poll_query_until('postgres',
		"SELECT node_address = '10.1.0.1:5432' AND worker_id = 0 AND alive AND is_self FROM leaf_snowflake_peers"),
	'the view of the cluster has the node itself');

my $id = next_id($node);
is($node->safe_psql('postgres', "SELECT worker_id FROM leaf_snowflake_parse($id)"),
	0, 'ids carry the worker id');

# Reports go on by themselves.
my $last = 0;
foreach (1 .. 3)
{
	$last = wait_until(
		'a newer report',
		sub {
			my ($data) =
			  $client->get('/snowflake/leaf/forever/10.1.0.1:5432-0000000000');
			my ($timestamp) = $data =~ /"timestamp":(\d+)/;
			$timestamp > $last ? $timestamp : 0;
		});
	cmp_ok($last, '>', $before_ms, 'the report is newer than the start');
}
is( $node->safe_psql('postgres', 'SELECT last_report_at IS NOT NULL FROM leaf_snowflake_status'),
	't', 'the view shows the last report');

# Clean restart, then kill -9 with the ephemeral still there, each while ids are
# drawn, so that the durable bound is far ahead.
foreach my $how ('clean restart', 'restart after kill -9')
{
	my $ids = LeafTest::Ids->new;
	$ids->start($node, 'SELECT leaf_snowflake_nextval()');
	$ids->wait_for_more(100);
	if ($how eq 'clean restart') { $node->stop('fast'); }
	else { crash_postmaster($node); }
	is( scalar(my @left = $client->children('/snowflake/leaf/temporary')),
		$how eq 'clean restart' ? 0 : 1,
		"$how: the ephemeral is gone only after a clean stop");

	my $from = time;
	$node->start;
	my $next = next_id($node);
	cmp_ok(time - $from, '<', seconds_allowed(2, $unhindered), "$how: back in under two seconds");
	is(status($node, 'state'), 'running', $how);
	is(status($node, 'worker_id'), 0, "$how: the same worker id");
	is(scalar(my @nodes = forever($client)), 1, "$how: no second node");
	cmp_ok($next, '>', $id, "$how: ids go on above those before");
	$ids->wait_for_more(100);
	$ids->stop;
	$ids->check_ok("$how: ids are unique and ordered");
	$id = next_id($node);
}

# Even without the state file it is the same node.
$node->stop('fast');
unlink($node->data_dir . '/leaf_node.state') or die "no state file: $!";
$node->start;
ok(wait_for_state($node, 'running'), 'restart without the state file');
is(status($node, 'worker_id'), 0, 'the same worker id');
cmp_ok(next_id($node), '>', $id, 'ids go on above those before');
$node->stop('fast');

# A chroot that is missing is made.
my $rooted = zookeeper_node('rooted', $zk->connect_string . '/some/root',
	"leaf.node_address = '10.1.0.2:5432'");
$rooted->start;
create_extension($rooted);
ok(wait_for_state($rooted, 'running'), 'start below a missing chroot');
is_deeply(
	[ forever($client, '/some/root') ],
	['10.1.0.2:5432-0000000000'],
	'the node is below the chroot');
$rooted->stop('fast');

done_testing();
