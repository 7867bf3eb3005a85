# G7: a server that is up before the network is. Its automatic address would be
# a loopback one, that is another node of the cluster; it waits for the network
# instead, and then goes on with its worker id, also without ZooKeeper.
#
# Needs a ZooKeeper and a network namespace without an interface.
use strict;
use warnings FATAL => 'all';

use LeafTest;
use LeafTest::ZooKeeperNode;
use PostgreSQL::Test::Utils;
use Test::More;

my @unshare = ('unshare', '--user', '--map-current-user', '--keep-caps', '--net');
plan skip_all => 'no network namespaces for this user, or no ip (Debian: iproute2)'
  if system("@unshare ip link add late0 type veth peer name late1 2>/dev/null") != 0;

my $zk = fast_zookeeper();
my $client = LeafTest::ZooKeeperClient->new($zk->connect_string);
my $node = zookeeper_node('main', $zk->connect_string, "leaf.node_address = ''");

$node->start;
create_extension($node);
ok(wait_for_state($node, 'running'), 'runs with its automatic address');
my ($ip) = status($node, 'node_address') =~ /^([\d.]+):/;
my @nodes = forever($client);
my $id = next_id($node);
$node->stop;

SKIP:
{
	skip 'this machine has a loopback address only', 5 if $ip =~ /^127\./;

	# As at boot: the server is there, an interface is not yet.
	my $go = PostgreSQL::Test::Utils::tempdir() . '/go';
	my $script = <<~"END";
		pg_ctl -w -D '@{[ $node->data_dir ]}' -l '@{[ $node->logfile ]}' start &&
		while [ ! -e '$go' ]; do sleep 0.1; done &&
		ip link add late0 type veth peer name late1 && ip address add $ip/24 dev late0 && ip link set late0 up
		END
	my $boot = LeafTest::spawn($node->logfile, @unshare, 'sh', '-c', $script);
	wait_for_server($node);
	$node->_update_pid(1);
	wait_until('the node to say what it waits for',
		sub { status($node, 'detail') =~ /^No network interface is up, and this node is "\Q$ip\E:/ });
	is(status($node, 'state'), 'starting', 'waits for an address');

	append_to_file($go, '');
	is(LeafTest::reap($boot), 0, 'an interface comes up');
	ok(wait_for_state($node, 'running'), 'goes on once it has it, without ZooKeeper');
	cmp_ok(next_id($node), '>', $id, 'with ids above those before');
	$node->stop;
	is_deeply([ forever($client) ], \@nodes, 'no second node in the cluster');
}
done_testing();
