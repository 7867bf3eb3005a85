# G2, G5: where the bound can't be put on disk, ids stop at it with a clear
# error, an alarm and no flood in the log; and come back once it can.
# pg_regress can't take the disk away.
use strict;
use warnings FATAL => 'all';

use LeafTest;
use LeafTest::Ids;
use LeafTest::Snowflake;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = snowflake_node('main', 5, "leaf.time_bound_ahead = '500ms'");
my $tmp = state_file($node) . '.tmp';
my $pid = worker_pid($node, 'leaf node');
my $ids = LeafTest::Ids->new;

# Each breaks the writing in its own way: the disk is full, the folder is
# read-only, the flush fails.
my @failures = (
	[
		'a full file system', qr/could not be written: No space left on device/,
		sub { symlink('/dev/full', $tmp) or die "could not create link: $!" },
		sub { unlink($tmp) or die "could not remove link: $!" }
	],
	[
		'a read-only folder', qr/could not be created: Permission denied/,
		sub { chmod(0500, $node->data_dir) or die "could not chmod: $!" },
		sub { chmod(0700, $node->data_dir) or die "could not chmod: $!" }
	]);

foreach my $failure (@failures)
{
	my ($name, $reason, $break, $mend) = @$failure;
	my $log_start;

	wait_until('a clean temporary file', sub { next_id($node); !-e $tmp });
	$log_start = -s $node->logfile;
	$break->();
	my $last = 0;
	wait_until('ids to stop',
		sub {
			my ($rc, $out) = $node->psql('postgres',
				"SET leaf.wait_timeout = '50ms'; SELECT leaf_snowflake_nextval()");
			$last = $out if $rc == 0;
			$rc != 0;
		});
	my $bound_ms = status($node, "(extract(epoch FROM time_bound) * 1000)::bigint");
	cmp_ok(id_time($last), '<', $bound_ms, "$name: no id is at or above the bound on disk");

	my $seconds = seconds_of(sub {
		fails_with($node, "SET leaf.wait_timeout = '1500ms'; SELECT leaf_snowflake_nextval()",
			'55000', qr/time bound .*not raised within 1500 ms.*DETAIL:.*$reason.*HINT:/s,
			'calls are told why');
	});
	cmp_ok($seconds, '>', 1.4, 'after leaf.wait_timeout');
	cmp_ok($seconds, '<', 4, 'and not later');
	like(alarms($node), qr/^time bound: .*$reason/m, 'an alarm says it');
	like(status($node, 'detail'), $reason, 'so does the status');
	is($node->safe_psql('postgres', 'SELECT 1'), 1, 'the server is up');

	my $waiting = LeafTest::Ids->new;
	$waiting->start($node, 'SELECT leaf_snowflake_nextval()');
	$mend->();
	$waiting->wait_for_more(1);
	$waiting->stop;
	is($waiting->errors, '', 'a call that waits gets its id once it is mended');
	cmp_ok(next_id($node), '>', $last, 'ids go on');
	is(alarms($node), '', 'the alarm is over');

	my $lines = () = server_log_since($node, $log_start) =~ /LOG: .*leaf alarm/g;
	is($lines, 2, 'the log has one line for its start and one for its end');
}
is(worker_pid($node, 'leaf node'), $pid, 'the node worker was the same all the while');

# A start that can't write: waits, and starts once it can.
$node->stop;
symlink('/dev/full', $tmp) or die "could not create link: $!";
$node->start;
fails_with($node, "SET leaf.wait_timeout = '100ms'; SELECT leaf_snowflake_nextval()", '55000',
	qr/not available yet.*DETAIL:.*No space left on device/s, 'a start that can not write says so');
unlink($tmp);
ok(next_id($node) > 0, 'and goes on once it can');

# The flush itself fails: by strace, around a server of its own.
my $flush = leaf_node('flush', snowflake_conf(6, "leaf.time_bound_ahead = '300ms'"));
$flush->start;
create_extension($flush);
next_id($flush);
my $worker = worker_pid($flush, 'leaf node');
my $trace = PostgreSQL::Test::Utils::tempdir() . '/trace';
my $strace = LeafTest::spawn($trace, 'strace', '-p', $worker, '-e', 'trace=fsync',
	'-e', 'inject=fsync:error=EIO', '-o', '/dev/null');
wait_until('strace to attach', sub { slurp_file("/proc/$worker/status") =~ /TracerPid:\s*[1-9]/ });
my $last = 0;
wait_until('ids to stop', sub {
	my ($rc, $out) = $flush->psql('postgres',
		"SET leaf.wait_timeout = '50ms'; SELECT leaf_snowflake_nextval()");
	$last = $out if $rc == 0;
	$rc != 0;
});
like(alarms($flush), qr/^time bound: .*could not be written: Input\/output error/m,
	'a failing fsync: an alarm');
is($flush->safe_psql('postgres', 'SELECT 1'), 1, 'a failing fsync of the bound takes nothing down');
LeafTest::reap($strace, 'TERM');
cmp_ok(next_id($flush), '>', $last, 'ids come back when it works again');
is(worker_pid($flush, 'leaf node'), $worker, 'with the same node worker');

done_testing();
