# G1: past 1023 no id is made up. With leaf.worker_id_ttl the id that has been
# silent for longest is taken over, by one contender, which begins above what
# its last owner can have issued.
#
# Needs a ZooKeeper whose counter has run out, and two servers at once.
use strict;
use warnings FATAL => 'all';

use LeafTest;
use LeafTest::ZooKeeperNode;
use Test::More;
use Time::HiRes qw(time);

my $zk = fast_zookeeper();
my $client = LeafTest::ZooKeeperClient->new($zk->connect_string);
my $forever = '/snowflake/leaf/forever';

$client->create_path("/snowflake/leaf/$_") foreach 'forever', 'temporary';

# Others have drawn all ids but the last; a few of them are still there.
my %kept = map { $_ => 1 } (0, 1, 2, 17);
foreach my $i (0 .. 1022)
{
	my $path = $client->create("$forever/10.9.0.$i:5432-",
		node_data("10.9.0.$i", 5432, int(time * 1000)),
		LeafTest::ZooKeeperClient::SEQUENTIAL);
	$client->delete($path) unless $kept{$i};
}

my @nodes = map { zookeeper_node("n$_", $zk->connect_string,
		"leaf.node_address = '10.3.0.$_:5432'") } (1 .. 4);
$nodes[0]->start;
create_extension($nodes[0]);
ok(wait_for_state($nodes[0], 'running'), 'the last id is an id');
is(status($nodes[0], 'worker_id'), 1023, 'it is 1023');

$nodes[1]->start;
create_extension($nodes[1]);
ok(wait_for_state($nodes[1], 'refused|worker_id_out_of_range'), 'the next node is refused');
like(status($nodes[1], 'detail'), qr/All 1024 worker ids/, 'and says why');
is(scalar(my @names = forever($client)), 5, 'it leaves no node');
my ($rc, undef, $error) = $nodes[1]->psql('postgres', 'SELECT leaf_snowflake_nextval()');
isnt($rc, 0, 'it issues nothing');
like($error, qr/worker_id_out_of_range/, 'and says why');
like(alarm_of($nodes[1], 'snowflake'), qr/worker_id_out_of_range/, 'there is an alarm');
$nodes[1]->stop;

# A time to live: 0 has an ephemeral and 17 reports, so 1 and 2 are abandoned;
# the oldest report is that of 2, and its clock is ahead.
my $ahead_ms = int(time * 1000) + 4000;
$client->set("$forever/10.9.0.2:5432-0000000002", node_data('10.9.0.2', 5432, $ahead_ms));
$client->set("$forever/10.9.0.1:5432-0000000001", node_data('10.9.0.1', 5432, 1));
$client->create('/snowflake/leaf/temporary/10.9.0.0:5432', '',
	LeafTest::ZooKeeperClient::EPHEMERAL);
my $abandoned = time;

$_->append_conf('postgresql.conf', 'leaf.worker_id_ttl = 2s') foreach @nodes;
$nodes[0]->restart;
$zk->freeze;
$nodes[$_]->start foreach 1 .. 2;
$zk->thaw;
create_extension($nodes[2]);
wait_until(
	'both abandoned ids to be taken over',
	sub {
		$client->set("$forever/10.9.0.17:5432-0000000017",
			node_data('10.9.0.17', 5432, int(time * 1000)));
		!grep { /^10\.9\.0\.[12]:/ } forever($client);
	});
cmp_ok(time - $abandoned, '>', 2, 'not before their time');
ok(wait_for_state($nodes[$_], 'running'), "contender $_ runs") foreach 1 .. 2;
my %owner = map { status($nodes[$_], 'worker_id') => $nodes[$_] } (1 .. 2);
is_deeply([ sort keys %owner ], [ 1, 2 ], 'each has one of the two');
is( join(' ', sort map { s/.*-0*//r } grep { /^10\.3/ } forever($client)),
	'1 1023 2', 'under forever too');
my $id = next_id($owner{2});
is( $owner{2}->safe_psql('postgres',
		"SELECT extract(epoch FROM generated_at) * 1000 > $ahead_ms FROM leaf_snowflake_parse($id)"),
	't', 'the new owner begins above the last report of the old one');
is_deeply(
	[ sort grep { /^10\.9/ } forever($client) ],
	[ '10.9.0.0:5432-0000000000', '10.9.0.17:5432-0000000017' ],
	'who has an ephemeral or reports keeps its id');

# A third contender finds nothing for as long as those report.
$client->set("$forever/10.9.0.17:5432-0000000017",
	node_data('10.9.0.17', 5432, int(time * 1000)));
$nodes[3]->start;
create_extension($nodes[3]);
ok(wait_for_state($nodes[3], 'refused|worker_id_out_of_range'), 'one too many is refused');
ok(wait_for_state($nodes[3], 'running'), 'until one more is silent');
is(status($nodes[3], 'worker_id'), 17, 'whose id it takes');
is(status($nodes[0], 'state'), 'running', 'the node with 1023 has run all the time');
$_->stop('immediate') foreach @nodes;
done_testing();
