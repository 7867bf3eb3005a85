# LeafTest/ZooKeeperNode.pm
#	Servers whose worker id comes from ZooKeeper, and what the tests ask them.
package LeafTest::ZooKeeperNode;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use LeafTest;
use LeafTest::ZooKeeper;
use LeafTest::ZooKeeperClient;
use LeafTest::ZooKeeperProxy;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(
  fast_zookeeper zookeeper_node status wait_for_state alarm_of next_id
  forever node_data
);

# ZooKeeper with short ticks, so that sessions can be short, and with a disk
# that does not slow the tests down. Options as of LeafTest::ZooKeeper.
sub fast_zookeeper
{
	my (%option) = @_;
	my $zk = LeafTest::ZooKeeper->new(
		tick_ms => 200,
		%option,
		conf => [
			'forceSync=no', 'maxSessionTimeout=60000', @{ $option{conf} // [] }
		]);

	$zk->start;
	return $zk;
}

# A small server, not started, for those ZooKeeper servers (a connect string).
sub zookeeper_node
{
	my ($name, $servers, @conf) = @_;

	return leaf_node(
		$name,
		"leaf.worker_id_source = 'zookeeper'",
		"leaf.zookeeper_servers = '$servers'",
		'leaf.zookeeper_session_timeout = 2s',
		'leaf.time_report_interval = 200ms',
		"leaf.node_address = '10.1.0.1:5432'",
		'shared_buffers = 1MB',
		'max_connections = 10',
		@conf);
}

# One column of leaf_snowflake_status, or several.
sub status
{
	my ($node, $columns) = @_;
	my ($rc, $out) =
	  $node->psql('postgres', "SELECT $columns FROM leaf_snowflake_status");

	return $rc == 0 ? $out : undef;
}

# Waits for 'state' or 'state|reason'.
sub wait_for_state
{
	my ($node, $wanted, $timeout) = @_;
	my $seen = '';

	return eval {
		wait_until(
			"state $wanted",
			sub {
				$seen = status($node, "state || coalesce('|' || reason, '')") // '';
				$seen eq $wanted;
			},
			$timeout);
	} // do { diag "$@ last seen: $seen"; 0 };
}

# The message of the alarm of that source, '' if there is none.
sub alarm_of
{
	my ($node, $source) = @_;

	return $node->safe_psql('postgres',
		"SELECT message FROM leaf_alarms WHERE source = '$source'");
}

sub next_id
{
	my ($node) = @_;

	return $node->safe_psql('postgres', 'SELECT leaf_snowflake_nextval()');
}

# Names under forever of cluster leaf, below an optional chroot.
sub forever
{
	my ($client, $chroot) = @_;

	return $client->children(($chroot // '') . '/snowflake/leaf/forever');
}

# A node's contents as Leaf writes them.
sub node_data
{
	my ($ip, $port, $timestamp_ms) = @_;

	return qq({"ip":"$ip","port":"$port","timestamp":$timestamp_ms});
}

1;
