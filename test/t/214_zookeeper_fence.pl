# G1: with leaf.worker_id_ttl an id is a lease. A node that can't report for
# half of it stops issuing before anybody else may have the id, goes on when
# it can report again, and takes another id where its own is gone.
#
# Needs a network that can be cut.
use strict;
use warnings FATAL => 'all';

use LeafTest;
use LeafTest::ZooKeeperNode;
use Test::More;
use Time::HiRes qw(time);

my $zk = fast_zookeeper();
my $client = LeafTest::ZooKeeperClient->new($zk->connect_string);
my $proxy = LeafTest::ZooKeeperProxy->new($zk->connect_string);
my $node = zookeeper_node('main', $proxy->address, 'leaf.worker_id_ttl = 4s',
	'leaf.time_bound_ahead = 1s', 'leaf.wait_timeout = 100ms');
my $own = '/snowflake/leaf/forever/10.1.0.1:5432-0000000000';

$node->start;
create_extension($node);
ok(wait_for_state($node, 'running'), 'runs');
my $id = next_id($node);

# Both kinds of silence.
foreach my $how ('cut', 'freeze')
{
	# Take ids until it refuses: when was the last, after the last report?
	$proxy->$how;
	my $reported = ($client->get($own))[1]{mtime} / 1000;
	wait_until(
		'the fence',
		sub {
			my ($rc, $out, $error) =
			  $node->psql('postgres', 'SELECT leaf_snowflake_nextval()');
			$id = $out if $rc == 0;
			$rc != 0 && $error =~ /fenced/;
		});
	my $silent = time - ($client->get($own))[1]{mtime} / 1000;
	cmp_ok($silent, '>=', 1.9, "$how: it issued for half of the time to live");
	cmp_ok($silent, '<', 4, "$how: and stopped before the id can be another's");
	is(status($node, "state || '|' || reason"), 'refused|fenced', "$how: the view says so");
	like(status($node, 'detail'), qr/half of "leaf.worker_id_ttl" \(4 s\)/, "$how: and why");

	$proxy->mend;
	ok(wait_for_state($node, 'running'), "$how: runs again");
	is(status($node, 'worker_id'), 0, "$how: with the same id");
	my $next = next_id($node);
	cmp_ok($next, '>', $id, "$how: ids go on");
	$id = $next;
}

# Taken over while it was away.
$proxy->cut;
ok(wait_for_state($node, 'refused|fenced'), 'fenced once more');
$client->delete($own);
$client->create('/snowflake/leaf/forever/10.9.9.9:1-0000000000',
	node_data('10.9.9.9', 1, int(time * 1000)));
$proxy->mend;
ok(wait_for_state($node, 'running'), 'runs again');
is(status($node, 'worker_id'), 2, 'with an id of its own');
like(alarm_of($node, 'zookeeper'), qr/worker id 0 .* it has 2 now/, 'and an alarm');
is($node->safe_psql('postgres',
		'SELECT worker_id FROM leaf_snowflake_parse(leaf_snowflake_nextval())'),
	2, 'which its ids carry');
cmp_ok(next_id($node), '>', $id, 'ids go on');

# A lease can't be proved without ZooKeeper.
$node->stop('fast');
$proxy->cut;
$node->start;
ok(wait_for_state($node, 'refused|no_worker_id'), 'no start on a lease without ZooKeeper');
$proxy->mend;
ok(wait_for_state($node, 'running'), 'until it is back');
$node->stop('fast');
done_testing();
