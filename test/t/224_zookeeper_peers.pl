# G8: leaf.peers and leaf.worker_id_source = zookeeper together. A new node is
# compared with what its peers answer, not with what is reported to ZooKeeper;
# away from their mean by more than leaf.clock_drift_limit it refuses, uses no
# worker id up and is not one of the cluster; it starts by itself once its
# clock is right or the limit is raised, and is not compared again.
#
# Needs a ZooKeeper, and several servers with clocks of their own.
use strict;
use warnings FATAL => 'all';

use LeafTest;
use LeafTest::Clock;
use LeafTest::Host;
use LeafTest::ZooKeeperNode;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $zk = fast_zookeeper();
my $client = LeafTest::ZooKeeperClient->new($zk->connect_string);
my $port = PostgreSQL::Test::Cluster::get_free_port();
my $host = LeafTest::Host->new;
my $clock = LeafTest::Clock->new;
my $forever = '/snowflake/leaf/forever';

# Servers of one port on addresses of their own, as pods have them.
sub make_node
{
	my ($i) = @_;
	my $sockets = PostgreSQL::Test::Utils::tempdir_short();
	my $node = zookeeper_node("node$i", $zk->connect_string,
		"leaf.node_address = '127.0.0.$i:$port'",
		"leaf.peers = 'host=peers.test port=$port user=clock dbname=postgres'",
		"listen_addresses = '127.0.0.$i'", "port = $port",
		"unix_socket_directories = '$sockets'");

	# Where the test's own connections go.
	$node->{_port} = $port;
	$node->{_host} = $sockets;
	unlink($node->data_dir . '/pg_hba.conf');
	append_to_file($node->data_dir . '/pg_hba.conf',
		"local all all trust\nhost all clock 127.0.0.0/8 trust\n");
	return $node;
}

sub start
{
	my ($node) = @_;

	$host->run(sub { $node->start });
	create_extension($node);
	$node->safe_psql('postgres', 'CREATE ROLE clock LOGIN IN ROLE pg_monitor');
	return;
}

# Ephemerals and lasting nodes as ZooKeeper has them.
sub cluster
{
	return join ' ', map { s/:$port//r } $client->children('/snowflake/leaf/temporary'), forever($client);
}

# Two of Leaf's own, which answer no question and report a time of their own.
sub report_others
{
	my ($ahead_s) = @_;

	foreach my $i (0, 1)
	{
		$client->set("$forever/10.8.0.$i:80-000000000$i",
			node_data("10.8.0.$i", 80, int(1000 * (time + $ahead_s))));
	}
	return;
}

my @node = map { make_node($_) } 2 .. 4;
my $others = '10.8.0.0:80-0000000000 10.8.0.1:80-0000000001';
my $first_two = "127.0.0.2 127.0.0.3 $others 127.0.0.2-0000000002 127.0.0.3-0000000003";
my $all_three = "127.0.0.2 127.0.0.3 127.0.0.4 $others 127.0.0.2-0000000002 127.0.0.3-0000000003 127.0.0.4-0000000004";

$client->create_path("/snowflake/leaf/$_") foreach 'forever', 'temporary';
$client->create("$forever/10.8.0.$_:80-", '{}', LeafTest::ZooKeeperClient::SEQUENTIAL) foreach 0, 1;
$host->addresses('127.0.0.2', '127.0.0.3', '127.0.0.4');

# A right clock, whatever is reported.
report_others(10);
start($node[0]);
ok(wait_for_state($node[0], 'running'), 'the first starts, with nobody that answers');
like(slurp_file($node[0]->logfile), qr/starts with its clock unchecked: no peer answered/, 'and says so');
report_others(10);
start($node[1]);
ok(wait_for_state($node[1], 'running'), 'the second, whose clock is that of the first, starts');
is(status($node[1], 'worker_id'), 3, 'with an id of its own');
unlike(slurp_file($node[1]->logfile), qr/clock unchecked/, 'and was compared');
wait_until('the two to see each other',
	sub { status($_, 'abs(clock_offset_ms) < 100') eq 't' }) foreach @node[ 0, 1 ];
is(cluster(), $first_two, 'ZooKeeper has both');
is( $node[1]->safe_psql('postgres',
		"SELECT bool_and(clock_offset_ms BETWEEN 9000 AND 10100) FROM leaf_snowflake_peers WHERE node_address LIKE '10.%'"),
	't', 'the others report another time');

# A moved one, though it is what the others report.
$clock->move(10);
report_others(10);
$clock->run(sub { start($node[2]) });
ok(wait_for_state($node[2], 'refused|clock_skewed'), 'a new node 10 s ahead of those that answer is refused');
like(status($node[2], 'detail'), qr/\+(9[89]|100)\d\d ms away/, 'it says how far');
my ($rc, $out, $error) = $node[2]->psql('postgres', 'SELECT leaf_snowflake_nextval()');
like($error, qr/refused: clock_skewed/, 'it issues nothing');
like(alarm_of($node[2], 'clock'), qr/away from the peers' mean/, 'there is an alarm');
wait_until('the ephemeral to be given back', sub { cluster() eq $first_two });
pass('it is not in the cluster');
ok(!-e $node[2]->data_dir . '/leaf_node.state', 'and leaves no file');

# However often it tries.
my $log = -s $node[2]->logfile;
foreach (1 .. 2)
{
	$node[2]->stop;
	$clock->run(sub { $host->run(sub { $node[2]->start }) });
	ok(wait_for_state($node[2], 'refused|clock_skewed'), 'it is refused again');
}
is(scalar(my @lines = server_log_since($node[2], $log) =~ /leaf alarm: snowflake/g), 2,
	'with one line in the log each time');

# A limit that allows it.
$node[2]->append_conf('postgresql.conf', 'leaf.clock_drift_limit = 20s');
$node[2]->reload;
ok(wait_for_state($node[2], 'running'), 'with a higher limit it starts by itself');
is(status($node[2], 'worker_id'), 4, 'no id was used up');
is(alarm_of($node[2], 'clock') . alarm_of($node[2], 'snowflake'), '', 'the alarms are over');
is(cluster(), $all_three, 'it is in the cluster');
ok(next_id($node[2]) > 0, 'and issues ids');

# A known one is not compared when it starts.
$node[2]->stop;
$node[2]->append_conf('postgresql.conf', 'leaf.clock_drift_limit = 1s');
$clock->run(sub { $host->run(sub { $node[2]->start }) });
ok(wait_for_state($node[2], 'running'), 'a node that has its id starts whatever the peers say');
wait_until('its alarm', sub { alarm_of($node[2], 'clock') =~ /away from the peers' mean/ });
is(status($node[2], 'worker_id'), 4, 'with its id');

# New again, and put right after a while.
$node[2]->stop;
$client->delete("$forever/127.0.0.4:$port-0000000004");
unlink($node[2]->data_dir . '/leaf_node.state');
$clock->run(sub { $host->run(sub { $node[2]->start }) });
ok(wait_for_state($node[2], 'refused|clock_skewed'), 'without its id and its file it is a new node');
$clock->move(0.3);
ok(wait_for_state($node[2], 'running'), 'once its clock is right it starts by itself');
is(status($node[2], 'worker_id'), 5, 'with the next id');
is(alarm_of($node[2], 'clock') . alarm_of($node[2], 'snowflake'), '', 'the alarms are over');
wait_until('its offset', sub { status($node[2], 'clock_offset_ms BETWEEN 250 AND 350') eq 't' });

# The view has the cluster as ZooKeeper knows it.
is( $node[2]->safe_psql('postgres',
		"SELECT string_agg(worker_id || ' ' || is_self, ', ' ORDER BY worker_id) FROM leaf_snowflake_peers"),
	'0 false, 1 false, 2 false, 3 false, 5 true', 'the view has a row a node');
$_->stop foreach reverse @node;
done_testing();
