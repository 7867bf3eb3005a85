# G1, G8: one cluster with Leaf itself. A node of Leaf, acted out with the
# libraries that it uses, reads ours and gets an id of its own beside them;
# we read its, and count it as a peer with a clock.
#
# Needs a JVM and a ZooKeeper.
use strict;
use warnings FATAL => 'all';

use File::Basename;
use IPC::Run;
use LeafTest;
use LeafTest::ZooKeeperNode;
use Test::More;

my @jars = map { "/usr/share/java/$_.jar" } qw(curator-framework curator-client
  zookeeper zookeeper-jute guava slf4j-api slf4j-nop jackson-core
  jackson-databind jackson-annotations netty-all);
my @missing = grep { !-e } @jars;
plan skip_all =>
  "no @missing (Debian: libcurator-framework-java libjackson2-databind-java)"
  if @missing;

my $zk = fast_zookeeper();
my $program = dirname(__FILE__) . '/../java/LeafNode.java';

# Starts a node of Leaf; returns it once it runs, with what it said.
sub start_leaf
{
	my ($ip, $port) = @_;
	my ($in, $out) = ('', '');
	my $handle = IPC::Run::start(
		[
			'java', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-cp',
			join(':', @jars), $program, $zk->connect_string, 'leaf', $ip, $port
		],
		'<', \$in, '>', \$out, '2>&1',
		my $timeout = IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));

	eval { IPC::Run::pump($handle) until $out =~ /^running$/m; 1 }
	  or die "Leaf said: $out\n$@";
	$timeout->reset;
	return { handle => $handle, said => $out };
}

sub stop_leaf
{
	my ($leaf) = @_;

	$leaf->{handle}->kill_kill;
	return;
}

# Leaf is first.
my $first = start_leaf('10.7.0.1', '8080');
like($first->{said}, qr/^new 0$/m, 'the first node of Leaf has worker id 0');

my $node = zookeeper_node('main', $zk->connect_string);
$node->start;
create_extension($node);
ok(wait_for_state($node, 'running'), 'a node of ours runs beside it');
is(status($node, 'worker_id'), 1, 'with the next id');
ok( $node->poll_query_until(
		'postgres',
		"SELECT alive AND worker_id = 0 AND last_report_at > now() - interval '2s'
			AND abs(clock_offset_ms) < 50
		FROM leaf_snowflake_peers WHERE node_address = '10.7.0.1:8080'"),
	'it sees the node of Leaf, its reports and its clock');
ok( $node->poll_query_until('postgres',
		'SELECT abs(clock_offset_ms) < 50 FROM leaf_snowflake_status'),
	'and compares its own clock with it');

# Leaf after us.
my $second = start_leaf('10.7.0.2', '8080');
like($second->{said}, qr/^new 2$/m, 'the next node of Leaf gets the next id');
like(
	$second->{said},
	qr/^10\.1\.0\.1:5432-0000000001 10\.1\.0\.1 5432 \d{13}$/m,
	'it reads our report');

# All of them again.
stop_leaf($_) foreach $first, $second;
$node->restart;
ok(wait_for_state($node, 'running'), 'our node again');
is(status($node, 'worker_id'), 1, 'with its id');
$first = start_leaf('10.7.0.1', '8080');
like($first->{said}, qr/^old 0$/m, 'and the node of Leaf with its');
my $client = LeafTest::ZooKeeperClient->new($zk->connect_string);
is(scalar(my @names = forever($client)), 3, 'three nodes in all');
stop_leaf($first);
$node->stop('fast');
done_testing();
