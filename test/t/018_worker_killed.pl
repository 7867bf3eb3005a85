# G1, G3, G6: the refill worker is ended by SIGTERM, SIGINT, SIGKILL,
# pg_terminate_backend or pg_cancel_backend while clients draw: it leaves within
# a second where it is told to, refills go on afterwards, and no id is lost to
# the order or comes twice. An idle worker leaves by itself.
#
# Not for pg_regress: it needs signals, and clients that outlive a crash.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeafTest;
use LeafTest::Ids;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

my $node = leaf_ready_node('main', 'leaf.segment_duration = 0');
$node->safe_psql('postgres', "INSERT INTO leaf_alloc (biz_tag, step) VALUES ('t', 20)");

# Drawn from once, and never again: its worker is looked at in the end.
my $quiet = leaf_ready_node('quiet');
$quiet->safe_psql('postgres', "INSERT INTO leaf_alloc (biz_tag) VALUES ('t')");
is(worker_pid($quiet, 'leaf refill'), undef, 'no worker for a tag that nobody draws from');
is($quiet->safe_psql('postgres', "SELECT leaf_segment_nextval('t')"), '1', 'an id of a quiet server');
ok(defined worker_pid($quiet, 'leaf refill', 'postgres'), 'its worker is there');

is(worker_pid($node, 'leaf refill'), undef, 'no worker before anybody asks');

my $ids = LeafTest::Ids->new;
$ids->start($node, "SELECT leaf_segment_nextval('t') FROM generate_series(1, 10)", clients => 3);
$ids->wait_for_more(500);
is($node->safe_psql('postgres', "SELECT count(*), min(backend_type) FROM pg_stat_activity WHERE backend_type LIKE 'leaf%' AND datname = 'postgres'"),
	'1|leaf refill', 'one worker, of backend_type "leaf refill"');

# Seconds from the signal to the end of the worker.
my @leaving;

# Ends the worker in one way; a new one takes over.
sub end_worker
{
	my ($name, $how) = @_;
	my $pid = wait_until('a worker', sub { worker_pid($node, 'leaf refill', 'postgres') });
	my $since = clock_gettime(CLOCK_MONOTONIC);

	$how->($pid);
	wait_until("the worker to end", sub { process_gone($pid) });
	push @leaving, clock_gettime(CLOCK_MONOTONIC) - $since;
	$ids->wait_for_more(500);
	pass("$name: refills go on");
	return;
}

end_worker('SIGTERM', sub { kill 'TERM', @_ });
end_worker('pg_terminate_backend', sub { $node->safe_psql('postgres', "SELECT pg_terminate_backend($_[0])") });
foreach (1 .. 10)
{
	end_worker("SIGTERM again ($_)", sub { kill 'TERM', @_ });
}

# On a busy machine one or the other may take longer.
@leaving = sort { $a <=> $b } @leaving;
cmp_ok($leaving[ @leaving / 2 ], '<', 1, 'a worker leaves within a second');
cmp_ok($leaving[-1], '<', 10, '... or so');

# A cancel may end what the worker does at the moment, no more.
foreach my $signal ('INT', 'HUP')
{
	my $pid = wait_until('a worker', sub { worker_pid($node, 'leaf refill', 'postgres') });

	foreach (1 .. 20)
	{
		kill $signal, $pid;
		$ids->wait_for_more(50);
	}
	pass("SIG$signal: refills go on");
}
foreach (1 .. 20)
{
	$node->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE backend_type = 'leaf refill'");
	$ids->wait_for_more(50);
}
pass('pg_cancel_backend: refills go on');

# A cancel in no hurry: the worker has nothing to do.
$ids->stop;
my $pid = wait_until('a worker', sub { worker_pid($node, 'leaf refill', 'postgres') });
kill 'INT', $pid;
is($node->safe_psql('postgres', "SELECT count(DISTINCT leaf_segment_nextval('t')) FROM generate_series(1, 200)"), '200',
	'refills go on after a cancel of an idle worker');

# SIGKILL and SIGSEGV restart the server.
$ids->start($node, "SELECT leaf_segment_nextval('t') FROM generate_series(1, 10)", clients => 3);
foreach my $signal ('KILL', 'SEGV', 'QUIT')
{
	$ids->wait_for_more(300);
	my $pid = wait_until('a worker', sub { worker_pid($node, 'leaf refill', 'postgres') });
	kill $signal, $pid;
	wait_until('the worker to end', sub { process_gone($pid) });
	wait_for_server($node);
	$ids->wait_for_more(500);
	pass("SIG$signal: refills go on after the restart");
}

# The server stops at once with a worker at work, and comes back.
my $since = clock_gettime(CLOCK_MONOTONIC);
$node->stop('fast');
cmp_ok(clock_gettime(CLOCK_MONOTONIC) - $since, '<', 20, 'a fast stop is not held up');
$node->start;
$ids->wait_for_more(500);
$ids->stop;
$ids->check_ok('ids are unique and rising through all of that');

is($node->safe_psql('postgres', 'SELECT count(*) FROM leaf_alarms'), '0', 'no alarm is left');

# Idle workers leave after a minute.
wait_until('the idle worker to leave', sub { !defined worker_pid($quiet, 'leaf refill', 'postgres') });
pass('an idle worker leaves');
is($quiet->safe_psql('postgres', "SELECT leaf_segment_nextval('t')"), '2', 'what is in hand is still served');
is(worker_pid($quiet, 'leaf refill'), undef, '... without a worker');
is($quiet->safe_psql('postgres', "SELECT count(DISTINCT leaf_segment_nextval('t')) FROM generate_series(1, 3000)"), '3000',
	'and a new worker comes when it is used up');

done_testing();
