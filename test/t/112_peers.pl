# G8, G4: the peers' time (leaf.peers). A new node asks every address of the
# name side by side; away from their mean by more than leaf.clock_drift_limit it
# refuses, nobody to ask it starts and says so; a peer that hangs, a wrong
# password, a name server that hangs delay nothing else.
# pg_regress has one server and one clock.
use strict;
use warnings FATAL => 'all';

use IO::Socket::INET;
use LeafTest;
use LeafTest::Clock;
use LeafTest::Host;
use LeafTest::Snowflake;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $port = PostgreSQL::Test::Cluster::get_free_port();
my $host = LeafTest::Host->new;
my @clocks = map { LeafTest::Clock->new } 1 .. 3;
my @nodes;

# Three servers of one port on addresses of their own, as pods have them.
sub make_node
{
	my ($i, @conf) = @_;
	my $sockets = PostgreSQL::Test::Utils::tempdir_short();
	my $node = leaf_node("node$i",
		snowflake_conf($i, "leaf.peers = 'host=peers.test port=$port user=clock password=right dbname=postgres'",
			"listen_addresses = '127.0.0." . ($i + 1) . "'", "port = $port",
			"unix_socket_directories = '$sockets'",
			"leaf.node_address = '127.0.0." . ($i + 1) . ":$port'",
			"leaf.time_report_interval = '200ms'", @conf));

	# Where the test's own connections go.
	$node->{_port} = $port;
	$node->{_host} = $sockets;
	unlink($node->data_dir . '/pg_hba.conf');
	append_to_file($node->data_dir . '/pg_hba.conf',
		"local all all trust\nhost all clock 127.0.0.0/8 scram-sha-256\n");
	return $node;
}

sub start
{
	my ($i) = @_;

	$clocks[ $i - 1 ]->run(sub { $host->run(sub { $nodes[ $i - 1 ]->start }) });
	return;
}

my $role = "CREATE ROLE clock LOGIN PASSWORD 'right' IN ROLE pg_monitor";

sub add_role
{
	my ($node) = @_;

	create_extension($node);
	$node->safe_psql('postgres', $role);
	return;
}

# The first: nobody answers, nobody but itself is there.
@nodes = map { make_node($_) } 1 .. 3;
$host->addresses('127.0.0.2');
start(1);
add_role($nodes[0]);
wait_for_state($nodes[0], 'running');
ok(1, 'a node that is alone starts');
$nodes[0]->stop;
unlink(state_file($nodes[0]));
$host->addresses('127.0.0.2', '127.0.0.3', '127.0.0.4');
start(1);
wait_for_state($nodes[0], 'running');
like(slurp_file($nodes[0]->logfile), qr/starts with its clock unchecked: no peer answered/,
	'no peer answers: it starts and says so');
like(alarms($nodes[0]), qr/^peers: none of [23] peers answered: /m, 'with an alarm');
is(status($nodes[0], 'clock_offset_ms IS NULL'), 't', 'its offset is unknown');

# The second, with a right clock.
start(2);
add_role($nodes[1]);
wait_for_state($nodes[1], 'running');
wait_until('the first to see the second', sub { status($nodes[0], 'abs(clock_offset_ms) < 100') eq 't' });
is(alarms($nodes[0]), '', 'the alarm of the first is over');

# The third is 10 s ahead: a new node away from the mean.
$clocks[2]->move(10);
start(3);
create_extension($nodes[2]);
wait_for_state($nodes[2], 'refused', 'clock_skewed');
fails_with($nodes[2], 'SELECT leaf_snowflake_nextval()', '55000',
	qr/refused: clock_skewed.*DETAIL:.*\+(?:9[89]|100)\d\d ms away from the peers' mean.*HINT:/s,
	'a new node that is 10 s ahead of its peers refuses');
like(alarms($nodes[2]), qr/^snowflake: refused: clock_skewed/m, 'with an alarm');
is($nodes[2]->safe_psql('postgres', 'SELECT 1'), 1, 'the database is up');
ok(!-e state_file($nodes[2]), 'it has not become a node');
my $offset = status($nodes[2], 'clock_offset_ms');
cmp_ok(abs($offset - 10_000), '<', 50, "its offset is right: $offset ms");

# It runs for a moment without knowing of peers, as while a data directory is
# being set up, and issues no id: it still is a new node.
my $peers = $nodes[2]->safe_psql('postgres', "SELECT setting FROM pg_file_settings WHERE name = 'leaf.peers'");
$clocks[2]->move(3);
$nodes[2]->stop;
$nodes[2]->append_conf('postgresql.conf', "leaf.peers = ''");
start(3);
wait_for_state($nodes[2], 'running');
$nodes[2]->stop;
$nodes[2]->append_conf('postgresql.conf', "leaf.peers = '$peers'");
start(3);
wait_for_state($nodes[2], 'refused', 'clock_skewed');
ok(1, 'a node that has run but issued nothing is a new one');

# Within the limit it starts, by itself.
$clocks[2]->move(0.5);
wait_for_state($nodes[2], 'running');
ok(next_id($nodes[2]) > 0, 'put right to within leaf.clock_drift_limit it starts');
wait_until('its offset', sub { status($nodes[2], 'clock_offset_ms BETWEEN 450 AND 550') eq 't' });
$nodes[2]->safe_psql('postgres', $role);

# What the first sees: itself, and both of the others; the mean of two.
wait_until('the first to see both', sub {
	$nodes[0]->safe_psql('postgres',
		'SELECT count(*) FROM leaf_snowflake_peers WHERE alive AND clock_offset_ms IS NOT NULL AND worker_id IS NOT NULL') == 3;
});
is( $nodes[0]->safe_psql(
		'postgres',
		'SELECT node_address, worker_id, alive, is_self FROM leaf_snowflake_peers ORDER BY worker_id'),
	join("\n", "127.0.0.2:$port|1|t|t", "127.0.0.3:$port|2|t|f", "127.0.0.4:$port|3|t|f"),
	'the view has a row a node');
is( $nodes[0]->safe_psql(
		'postgres', q(
	SELECT string_agg(abs(round(clock_offset_ms / 100))::text, ' ' ORDER BY worker_id) FROM leaf_snowflake_peers)),
	'0 0 5',
	'with its offset');
wait_until('the mean of both', sub { status($nodes[0], 'clock_offset_ms BETWEEN -300 AND -200') eq 't' });
ok(1, 'the offset of a node is to the mean of its peers');

# Two nodes of one worker id.
$nodes[2]->append_conf('postgresql.conf', 'leaf.worker_id = 2');
$nodes[2]->stop;
start(3);
wait_until('the alarm of the second', sub { alarms($nodes[1]) =~ /^peers: "127\.0\.0\.4:$port" has the worker id of this node, 2/m });
wait_until('the alarm of the third', sub { alarms($nodes[2]) =~ /^peers: "127\.0\.0\.3:$port" has the worker id of this node, 2/m });
ok(1, 'a peer with the worker id of this node: an alarm on both');
$nodes[2]->append_conf('postgresql.conf', 'leaf.worker_id = 3');
$nodes[2]->stop;
start(3);
wait_for_state($nodes[2], 'running');
wait_until('the alarm to be over', sub { alarms($nodes[1]) !~ /^peers/m });

# A running node whose clock drifts away raises an alarm and goes on.
$clocks[2]->move(3);
wait_until('an alarm', sub { alarms($nodes[2]) =~ /^clock: clock is \+\d+ ms away from the peers' mean/m });
ok(next_id($nodes[2]) > 0, 'a running node away from the mean: an alarm, and ids');
$clocks[2]->move(3.1);

# A known node starts whatever the peers say, as the articles have it.
$nodes[2]->stop;
start(3);
wait_for_state($nodes[2], 'running');
ok(1, 'a node that has been there before is not compared');
$nodes[2]->stop;

# A peer that takes connections and never answers, and one with another password.
my $silent = IO::Socket::INET->new(LocalAddr => '127.0.0.4', LocalPort => $port, Listen => 10, ReuseAddr => 1)
  or die "could not listen: $!";
$nodes[0]->safe_psql('postgres', "ALTER ROLE clock PASSWORD 'other'");
$nodes[1]->stop;
unlink(state_file($nodes[1]));
my $log_start = -s $nodes[1]->logfile;
start(2);
my $seconds = seconds_of(sub { ok(next_id($nodes[1]) > 0, 'a peer that hangs and a wrong password: ids') });
cmp_ok($seconds, '<', 4, 'after the time that a peer may take');
wait_until('the alarm', sub { alarms($nodes[1]) =~ /^peers: none of [23] peers answered: / });
unlike(server_log_since($nodes[1], $log_start), qr/right/, 'the password is not in the log');
my $last = 0;
foreach (1 .. 40)
{
	my $took = seconds_of(sub { $last = next_id($nodes[1]) });
	fail("a call took $took s") if $took > 1.9;
}
my $again = seconds_of(sub {
	wait_until('the bound to move on', sub { next_id($nodes[1]); status($nodes[1], 'time_bound > clock_timestamp() + interval \'1.5 s\'') eq 't' });
});
cmp_ok($again, '<', 4, 'while it hangs, ids and the time bound go on');
my $pid = worker_pid($nodes[1], 'leaf node');
$seconds = seconds_of(sub {
	kill('TERM', $pid);
	wait_until('the worker to end', sub { process_gone($pid) });
});
cmp_ok($seconds, '<', 1, 'the worker leaves within a second of SIGTERM, with calls under way');

# A name server that hangs.
$host->addresses('hang');
$nodes[1]->stop;
unlink(state_file($nodes[1]));
start(2);
$seconds = seconds_of(sub { ok(next_id($nodes[1]) > 0, 'a name server that hangs: ids') });
cmp_ok($seconds, '<', 4, 'after the time that a peer may take');
$pid = worker_pid($nodes[1], 'leaf node');
$seconds = seconds_of(sub {
	kill('TERM', $pid);
	wait_until('the worker to end', sub { process_gone($pid) });
});
cmp_ok($seconds, '<', 1, 'the worker leaves within a second of SIGTERM, with a name unresolved');

# The thread that resolves handles no signal.
wait_until('a new worker', sub { (worker_pid($nodes[1], 'leaf node') // $pid) != $pid });
$pid = worker_pid($nodes[1], 'leaf node');
my @threads = wait_until('the thread', sub { my @t = grep { !m!/$pid$! } glob "/proc/$pid/task/*"; @t ? \@t : undef })->@*;
# All but what can't be blocked: KILL, STOP, and the C library's own two.
like(slurp_file("$threads[0]/status"), qr/^SigBlk:\s*fffffffe7ffbfeff$/m, 'the resolving thread has every signal blocked');
$nodes[1]->stop;

# A secret: neither SHOW nor pg_settings has the password.
is($nodes[0]->safe_psql('postgres', 'SHOW leaf.peers'), '********', 'SHOW has stars for the password');
is( $nodes[0]->safe_psql('postgres', "SELECT count(*) FROM pg_settings s WHERE s::text LIKE '%right%'"),
	0, 'pg_settings has none either');
is( $nodes[0]->safe_psql('postgres', "SET ROLE clock; SELECT count(*) FROM pg_settings s WHERE s::text LIKE '%right%'"),
	0, 'nor for a role that may read all settings');

done_testing();
