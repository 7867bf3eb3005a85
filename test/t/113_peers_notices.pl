# G5: what a peer has to say besides its time does not fill our log: a server
# of other libraries warns of its collations at every connection.
# pg_regress has one server.
use strict;
use warnings FATAL => 'all';

use LeafTest;
use LeafTest::Snowflake;
use PostgreSQL::Test::Utils;
use Test::More;

my $peer = snowflake_node('peer', 1, "listen_addresses = '127.0.0.1'");
append_to_file($peer->data_dir . '/pg_hba.conf', "host all all 127.0.0.1/32 trust\n");
$peer->reload;
$peer->safe_psql('postgres', "UPDATE pg_database SET datcollversion = '0'");
$peer->safe_psql('postgres', 'SELECT 1');
my $node = snowflake_node('main', 2, "leaf.node_address = 'main:1'", 'leaf.time_report_interval = 100ms',
	"leaf.peers = 'host=127.0.0.1 port=" . $peer->port . " dbname=postgres'");

wait_for_state($node, 'running');
my $rounds = sub { scalar(() = server_log_since($peer) =~ /connection authorized.*application_name=leaf node/g) };
$peer->safe_psql('postgres', 'ALTER SYSTEM SET log_connections = on');
$peer->reload;
wait_until('some rounds', sub { $rounds->() >= 3 });
is(status($node, 'abs(clock_offset_ms) < 1000'), 't', 'the peer answers');
$node->stop;
is(scalar(() = server_log_since($node) =~ /collation version/g), 0, 'its warnings are its own');
done_testing();
