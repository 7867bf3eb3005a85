# G5, G6, G10: the node worker itself: calls while it starts, SIGTERM, kill -9,
# no slot for it, sources that are not set, pg_upgrade, several databases.
# pg_regress can't restart the server or kill its processes.
use strict;
use warnings FATAL => 'all';

use LeafTest;
use LeafTest::Ids;
use LeafTest::Snowflake;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = snowflake_node('main', 8);

# SIGTERM: gone within a second, and back, without an error for anybody.
my $ids = LeafTest::Ids->new;
$ids->start($node, 'SELECT leaf_snowflake_nextval()', clients => 2);
$ids->wait_for_more(100);
my $pid = worker_pid($node, 'leaf node');
my $seconds = seconds_of(sub {
	kill('TERM', $pid);
	wait_until('the worker to end', sub { process_gone($pid) });
});
cmp_ok($seconds, '<', 1, 'the worker leaves within a second of SIGTERM');
wait_until('a new worker', sub { (worker_pid($node, 'leaf node') // $pid) != $pid });
$ids->wait_for_more(100);
is($ids->errors, '', 'calls wait for the new one');
is(alarms($node), '', 'without an alarm');
$ids->stop;

# One that hangs can't say so: whoever waits for it in vain does.
my $log_start = -s $node->logfile;
$pid = worker_pid($node, 'leaf node');
kill('STOP', $pid);
wait_until('ids to stop at the bound', sub {
	($node->psql('postgres', "SET leaf.wait_timeout = '50ms'; SELECT leaf_snowflake_nextval()"))[0] != 0;
});
like(alarms($node), qr/"leaf node" does not raise the time bound/, 'a worker that hangs is an alarm');
kill('CONT', $pid);
next_id($node);
wait_until('the alarm to be over', sub { alarms($node) eq '' });
my $lines = () = server_log_since($node, $log_start) =~ /LOG: .*leaf alarm/g;
is($lines, 2, 'the log has one line for its start and one for its end');
$ids->start($node, 'SELECT leaf_snowflake_nextval()', clients => 2);
$ids->wait_for_more(100);

# kill -9: a restart of the server, as of any process of it.
$pid = worker_pid($node, 'leaf node');
ok(crash_worker($node, 'leaf node'), 'the worker is killed');
$ids->wait_for_more(100);
$ids->stop;
$ids->check_ok('ids are unique and ordered over that');
isnt(worker_pid($node, 'leaf node'), $pid, 'there is a new worker');

# A clean shutdown is not held up, and a restart goes on at once.
my $last = next_id($node);
$seconds = seconds_of(sub { $node->stop('fast') });
cmp_ok($seconds, '<', 5, 'a fast shutdown is not held up');
$node->start;
cmp_ok(next_id($node), '>', $last, 'ids go on');

# The databases of a server share it; DROP DATABASE does not wait for it.
$node->safe_psql('postgres', 'CREATE DATABASE a');
$node->safe_psql('postgres', 'CREATE DATABASE b TEMPLATE postgres');
create_extension($node, 'a');
my @three = map { $node->safe_psql($_, 'SELECT leaf_snowflake_nextval()') } qw(a b a);
ok($three[0] < $three[1] && $three[1] < $three[2], 'databases share the generator');
$seconds = seconds_of(sub { $node->safe_psql('postgres', 'DROP DATABASE a'); });
cmp_ok($seconds, '<', 3, 'DROP DATABASE does not wait for it');
is( $node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'leaf node' AND datname IS NOT NULL"),
	0, 'the worker has no database');

# Binary upgrade: no worker.
$node->stop;
$log_start = -s $node->logfile;
$node->start(fail_ok => 0);
$node->stop;
PostgreSQL::Test::Utils::system_or_bail('pg_ctl', '-w', '-s', '-D', $node->data_dir, '-l', $node->logfile,
	'-o', '-b', 'start');
my $postmaster = postmaster_pid($node);
is(scalar(grep { /leaf/ } `ps -ww -o args= --ppid $postmaster`), 0, 'no worker of leaf in binary upgrade mode');
PostgreSQL::Test::Utils::system_or_bail('pg_ctl', '-w', '-s', '-D', $node->data_dir, 'stop');

# static without a worker id.
$node->append_conf('postgresql.conf', 'leaf.worker_id = -1');
$node->start;
wait_for_state($node, 'refused', 'no_worker_id');
fails_with($node, 'SELECT leaf_snowflake_nextval()', '55000',
	qr/refused: no_worker_id.*DETAIL:.*leaf\.worker_id is not set.*HINT:.*0\.\.1023/s, 'static without an id: refused');
like(alarms($node), qr/^snowflake: refused: no_worker_id/m, 'with an alarm');
$node->stop;

# No source.
$node->append_conf('postgresql.conf', "leaf.worker_id_source = 'none'");
$node->start;
fails_with($node, 'SELECT leaf_snowflake_nextval()', '55000',
	qr/snowflake ids are disabled.*HINT:.*leaf\.worker_id_source/s, 'none: disabled');
is(status($node, 'state, reason, worker_id, worker_id_source'), 'disabled|||none', 'the status says so');
is(alarms($node), '', 'which is no alarm');
is(worker_pid($node, 'leaf node'), undef, 'and has no worker');
is($node->safe_psql('postgres', 'SELECT worker_id FROM leaf_snowflake_parse(815231500943462471)'),
	793, 'ids are read all the same');
$node->stop;

# No slot.
$node->append_conf('postgresql.conf', "leaf.worker_id_source = 'static'\nleaf.worker_id = 8\nmax_worker_processes = 0");
$node->start;
$seconds = seconds_of(sub {
	fails_with($node, "SET leaf.wait_timeout = '300ms'; SELECT leaf_snowflake_nextval()", '53000',
		qr/"leaf node" is not running.*HINT:.*max_worker_processes/s, 'no slot: error 53000 that names the setting');
});
cmp_ok($seconds, '<', 3, 'after leaf.wait_timeout');
$node->stop;

# Not preloaded.
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->start;
foreach my $call ('leaf_snowflake_nextval()', 'leaf_snowflake_parse(1)', 'leaf_snowflake_floor(now())',
	'leaf_snowflake_status()', 'leaf_snowflake_peers()', 'leaf_alarm_status()')
{
	fails_with($node, "SELECT $call", '55000',
		qr/must be loaded via "shared_preload_libraries".*HINT:/s, "not preloaded: $call");
}

done_testing();
