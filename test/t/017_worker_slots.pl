# G5, G10: when max_worker_processes is used up, a database that has no worker
# yet gets 53000 and a HINT that names the setting, while others go on; an alarm
# says so; a slot that comes free is taken. When max_connections is used up,
# refills go on.
#
# Not for pg_regress: both are settings of server start.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeafTest;
use LeafTest::Call;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = leaf_node('main', 'max_worker_processes = 3', 'max_logical_replication_workers = 0',
	'max_parallel_workers = 0', 'leaf.segment_duration = 0', 'max_connections = 12', 'autovacuum = off',
	'leaf.wait_timeout = 5min');
$node->start;

my @databases = map { "d$_" } 1 .. 4;
foreach my $dbname (@databases)
{
	$node->safe_psql('postgres', "CREATE DATABASE $dbname");
	create_extension($node, $dbname);
	$node->safe_psql($dbname, "INSERT INTO leaf_alloc (biz_tag, step) VALUES ('t', 20)");
}

# How many slots are left depends on the static workers; four databases are
# more than there can be.
my $many = "SELECT count(DISTINCT leaf_segment_nextval('t')) FROM generate_series(1, 200)";
my (@served, @refused);
my $log_from = -s $node->logfile;
foreach my $dbname (@databases)
{
	my $call = LeafTest::Call->run($node, $many, dbname => $dbname, wait_timeout => '1s');

	if ($call->sqlstate eq '')
	{
		is($call->result, '200', "$dbname has a worker");
		push @served, $dbname;
	}
	else
	{
		is($call->sqlstate, '53000', "$dbname can't have one") or diag($call->error);
		like($call->error, qr/^HINT: .*max_worker_processes/m, '... and the HINT names the setting');
		cmp_ok($call->seconds, '<', 30, '... in time');
		push @refused, $dbname;
	}
}
cmp_ok(scalar @served, '>=', 1, 'somebody was served');
cmp_ok(scalar @refused, '>=', 1, 'somebody was refused');

is($node->safe_psql($refused[0], "SELECT count(*) FROM leaf_alarms WHERE hint LIKE '%max\\_worker\\_processes%'"), '1', 'there is an alarm');
foreach (1 .. 5)
{
	LeafTest::Call->run($node, $many, dbname => $refused[0], wait_timeout => '200ms');
	LeafTest::Call->run($node, $many, dbname => $served[0]);
}
my @lines = grep { /alarm/ } split /\n/, server_log_since($node, $log_from);
is(scalar @lines, 1, 'logged once') or diag(join "\n", @lines);
my $call;

is(LeafTest::Call->run($node, $many, dbname => $_)->result, '200', "$_ goes on") foreach @served;

# A database goes whose request nobody served: a tag that comes to the same
# place in shared memory is served nevertheless.
$node->safe_psql('postgres', 'CREATE DATABASE unserved');
create_extension($node, 'unserved');
$node->safe_psql('unserved', "INSERT INTO leaf_alloc (biz_tag) VALUES ('t')");
$call = LeafTest::Call->run($node, $many, dbname => 'unserved', wait_timeout => '200ms');
is($call->sqlstate, '53000', 'a database that is not served');
$node->safe_psql('postgres', 'DROP DATABASE unserved');
$node->safe_psql($served[0], "INSERT INTO leaf_alloc (biz_tag) VALUES ('next')");
is(LeafTest::Call->run($node, "SELECT leaf_segment_nextval('next')", dbname => $served[0])->result,
	'1', '... leaves nothing behind when it is dropped');

# A slot comes free: a database goes, the next one takes its place.
$node->safe_psql('postgres', "DROP DATABASE $served[0]");
is(LeafTest::Call->run($node, $many, dbname => $refused[0])->result, '200', "$refused[0] has a worker now");
is($node->safe_psql($refused[0], "SELECT count(*) FROM leaf_alarms WHERE hint LIKE '%max\\_worker\\_processes%'"), '0', 'the alarm is over');

# One that waits for a slot gets it when it comes free.
if (@refused > 1)
{
	$call = LeafTest::Call->run($node, $many, dbname => $refused[1], wait_timeout => '200ms');
	is($call->sqlstate, '53000', "$refused[1] is still refused");
}

# All connections are used up; the worker is started anew nevertheless.
my @sessions;
my $drawing = $node->background_psql($refused[0], on_error_stop => 0);
while (@sessions < 30)
{
	my ($rc) = $node->psql('postgres', 'SELECT 1');
	last if $rc != 0;
	push @sessions, $node->background_psql('postgres', on_error_stop => 0);
}
my ($rc, $out, $err) = $node->psql('postgres', 'SELECT 1');
like($err, qr/too many clients|remaining connection slots/, 'no connection is left');
is($drawing->query_safe($many), '200', 'refills go on with no connection left');
$drawing->query_safe("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE backend_type = 'leaf refill' AND datname = current_database()");
is($drawing->query_safe($many), '200', 'a new worker starts with no connection left');
$_->quit foreach @sessions, $drawing;

# No worker at all.
$node->append_conf('postgresql.conf', 'max_worker_processes = 0');
$node->restart;
$call = LeafTest::Call->run($node, $many, dbname => $refused[0], wait_timeout => '500ms');
is($call->sqlstate, '53000', 'max_worker_processes = 0: an error');
like($call->error, qr/^HINT: .*max_worker_processes/m, '... and the HINT names the setting');
$call = LeafTest::Call->run($node, "BEGIN; INSERT INTO leaf_alloc (biz_tag) VALUES ('own'); SELECT leaf_segment_nextval('own'); COMMIT", dbname => $refused[0]);
is($call->result, '1', 'a tag of the own transaction needs no worker');

done_testing();
