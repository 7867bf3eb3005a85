# G8: a node whose clock is behind its own last report does not start; a new
# one that is away from its live peers' mean does not either, and uses no
# worker id up; both start by themselves once that is right. Peers' clocks are
# known from their reports alone, Leaf's own nodes among them.
#
# Needs other nodes with other clocks, acted out here in ZooKeeper.
use strict;
use warnings FATAL => 'all';

use LeafTest;
use LeafTest::ZooKeeperNode;
use Test::More;
use Time::HiRes qw(time);

my $zk = fast_zookeeper();
my $client = LeafTest::ZooKeeperClient->new($zk->connect_string);
my $forever = '/snowflake/leaf/forever';
my $own = "$forever/10.1.0.1:5432-0000000002";
my %peer = (
	"$forever/10.8.0.1:80-0000000000" => '10.8.0.1',
	"$forever/10.8.0.2:80-0000000001" => '10.8.0.2');

# Peers' reports, as if their clocks were so far ahead of ours.
sub report_peers
{
	my ($ahead_ms) = @_;

	foreach my $path (keys %peer)
	{
		$client->set($path, node_data($peer{$path}, 80, int(time * 1000) + $ahead_ms));
	}
	return;
}

$client->create_path("/snowflake/leaf/$_") foreach 'forever', 'temporary';
$client->create("$forever/$peer{$_}:80-", '{}', LeafTest::ZooKeeperClient::SEQUENTIAL)
  foreach sort keys %peer;
report_peers(3000);

my $node = zookeeper_node('main', $zk->connect_string);
$node->start;
create_extension($node);
ok(wait_for_state($node, 'refused|clock_skewed'), 'a new node away from its peers is refused');
like(status($node, 'detail'), qr/-(2\d\d\d|3000|300\d) ms away/, 'it says how far');
like(alarm_of($node, 'clock'), qr/away from the peers' mean/, 'there is an alarm');
wait_until('the ephemeral to be given back',
	sub { !(my @left = $client->children('/snowflake/leaf/temporary')) });
is(scalar(my @nodes = forever($client)), 2, 'it is not in the cluster');

# Peers that are right again: recovery, with the next id of the counter.
wait_until('the node to run',
	sub { report_peers(400); status($node, 'state') eq 'running' });
is(status($node, 'worker_id'), 2, 'it starts by itself, and no id was used up');
is(alarm_of($node, 'clock'), '', 'the alarm is over');

# Offsets, measured without any RPC.
wait_until(
	'offsets of the peers',
	sub {
		report_peers(400);
		$node->safe_psql('postgres',
			"SELECT count(*) = 2 AND bool_and(clock_offset_ms BETWEEN 395 AND 405 AND alive)
			FROM leaf_snowflake_peers WHERE NOT is_self") eq 't';
	});
pass('the peers are 400 ms ahead, by 5 ms at most');
is($node->safe_psql('postgres',
		'SELECT clock_offset_ms BETWEEN -405 AND -395 FROM leaf_snowflake_status'),
	't', 'we are 400 ms behind their mean');

# Behind the own last report: refused, and the report is not put back.
$node->stop('fast');
my $ahead_ms = int(time * 1000) + 4000;
$client->set($own, node_data('10.1.0.1', 5432, $ahead_ms));
$node->start;
ok(wait_for_state($node, 'refused|clock_behind'), 'refused while behind the last report');
like(alarm_of($node, 'snowflake'), qr/clock_behind/, 'there is an alarm');
my ($data) = $client->get($own);
is($data, node_data('10.1.0.1', 5432, $ahead_ms), 'the report stays');
ok(wait_for_state($node, 'running'), 'it starts once the clock is past');
cmp_ok(time * 1000, '>', $ahead_ms, 'and not before');
my $id = next_id($node);
is($node->safe_psql('postgres',
		"SELECT extract(epoch FROM generated_at) * 1000 > $ahead_ms FROM leaf_snowflake_parse($id)"),
	't', 'its ids are above the last report');
is(alarm_of($node, 'snowflake'), '', 'the alarm is over');

# Data that can't be read is no reason to fall over: its write time counts.
$node->stop('fast');
$client->set($own, 'not json');
$node->start;
ok(wait_for_state($node, 'running'), 'unreadable own data');
($data) = $client->get($own);
like($data, qr/^\{"ip":"10.1.0.1","port":"5432","timestamp":\d+\}$/, 'is written anew');
$node->stop('fast');

# Alone, a node has only the ensemble's clock to compare with. (The worker
# has threads, and with threads libfaketime does not fake the time.)
my $proxy = LeafTest::ZooKeeperProxy->new($zk->connect_string);
my $lone = zookeeper_node('lone', $proxy->address . '/lone');
$proxy->shift_clock(-20000);
$lone->start;
create_extension($lone);
ok(wait_for_state($lone, 'running'), 'a lone node with another clock than ZooKeeper runs');
wait_until('the alarm', sub { alarm_of($lone, 'clock') });
like(alarm_of($lone, 'clock'), qr/is (19|20)\d\d\d ms ahead of that of ZooKeeper/, 'there is an alarm');
$proxy->shift_clock(0);
wait_until('the end of the alarm', sub { !alarm_of($lone, 'clock') });
pass('which is over once the clock is right');
$lone->stop('fast');
done_testing();
