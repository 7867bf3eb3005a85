# G2: a millisecond is used only below a bound that is on disk. Not written on
# an idle server; nothing to wait for after a clean stop or a crash of the server
# alone, and at most leaf.time_bound_ahead after a crash of the machine.
# pg_regress can't trace system calls or restart the server.
use strict;
use warnings FATAL => 'all';

use LeafTest;
use LeafTest::Snowflake;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = snowflake_node('main', 4, 'fsync = on', "leaf.time_bound_ahead = '1s'");

# Under strace, so that each flush of the file is seen.
my $trace = PostgreSQL::Test::Utils::tempdir() . '/trace';
my $worker = worker_pid($node, 'leaf node');
my $strace = LeafTest::spawn('/dev/null', 'strace', '-p', $worker, '-o', $trace,
	'-e', 'trace=openat,write,fsync,fdatasync,rename,close');
wait_until('strace to attach', sub { slurp_file("/proc/$worker/status") =~ /TracerPid:\s*[1-9]/ });

my $first = next_id($node);
my $bound_ms = status($node, "(extract(epoch FROM time_bound) * 1000)::bigint");
cmp_ok($bound_ms, '>', id_time($first), 'an id is below the bound');

# Used: the bound moves on.
wait_until('a bound that moved on', sub {
	next_id($node);
	status($node, "(extract(epoch FROM time_bound) * 1000)::bigint") > $bound_ms + 2000;
});

# Idle: it is left to pass, and the file is not touched again.
wait_until('the bound to pass', sub { status($node, 'time_bound < clock_timestamp()') eq 't' });
my $written = (stat(state_file($node)))[9] . status($node, 'last_report_at');
my $end = time + 4;
wait_until('some bounds to have passed', sub { time >= $end });
is((stat(state_file($node)))[9] . status($node, 'last_report_at'),
	$written, 'an idle server does not write the file');
my $seconds = seconds_of(sub { next_id($node) });
cmp_ok($seconds, '<', 1, 'the first call after that waits for one write only');
is(status($node, 'time_bound > clock_timestamp()'), 't', 'which raised the bound');

my $last = next_id($node);
$node->stop;
ok(!-e last_id_object($node), 'a clean stop leaves nothing in memory');

LeafTest::reap($strace);

# What the trace says of each write: written, flushed, renamed, folder flushed.
my %fd;
my @steps;
foreach my $call (split /\n/, slurp_file($trace))
{
	$fd{$2} = $1 if $call =~ /^openat\(AT_FDCWD, "([^"]*)".* = (\d+)$/;
	push @steps, 'write' if $call =~ /^write\((\d+)/ && ($fd{$1} // '') eq 'leaf_node.state.tmp';
	push @steps, "flush $fd{$1}" if $call =~ /^f(?:data)?sync\((\d+)\).* = 0/ && $fd{$1};
	push @steps, 'rename' if $call =~ /^rename\("leaf_node.state.tmp", "leaf_node.state"\) += 0/;
}
my $steps = join(', ', @steps);
my $one = qr/write, flush leaf_node\.state\.tmp, rename, flush \./;
like($steps, qr/^$one(?:, $one){3,}$/, 'each write is flushed, renamed, and its folder flushed')
  || diag($steps);

# After a clean stop there is nothing to wait for.
$node->start;
$seconds = seconds_of(sub { cmp_ok(next_id($node), '>', $last, 'ids go on above the last') });
cmp_ok($seconds, '<', 0.9, 'a clean stop leaves no wait at the next start');
is( $node->safe_psql(
		'postgres',
		q(SELECT count(*) FROM pg_ls_dir('.') f WHERE f LIKE 'leaf_node%')),
	1,
	'and no other file');

# A bound of which not more than a second has passed.
sub bound_ahead
{
	my ($seconds) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET leaf.time_bound_ahead = '${seconds}s'");
	$node->reload;
	wait_until('a bound that is far ahead', sub {
		next_id($node);
		status($node, "time_bound > clock_timestamp() + interval '@{[ $seconds - 1 ]} s'") eq 't';
	});
	return status($node, "(extract(epoch FROM time_bound) * 1000)::bigint");
}

# A crash of the server, whichever process began it, and again before it is
# ready: ids go on at once above the last.
bound_ahead(15);
$last = next_id($node);
crash_worker($node, 'leaf node');
$seconds = seconds_of(sub { cmp_ok(next_id($node), '>', $last, 'worker killed: ids go on above the last') });
cmp_ok($seconds, '<', 5, 'without a wait for the bound');
$last = next_id($node);
crash_postmaster($node);
$node->start;
crash_postmaster($node);
$node->start;
$seconds = seconds_of(sub { cmp_ok(next_id($node), '>', $last, 'postmaster killed twice: ids go on above the last') });
cmp_ok($seconds, '<', 5, 'without a wait for the bound');
is(alarms($node), '', 'a crash with a right clock raises no alarm');

# What is left in memory is not believed if it is not of the run that wrote the
# file, or was put there by another user.
my %spoil = (
	'of another run' => sub { substr($_[0], 16, 8) = pack('Q', 4711) },
	'of another worker id' => sub { substr($_[0], 0, 8) = pack('Q', unpack('Q', $_[0]) ^ 1 << 12) },
	'empty' => sub { $_[0] = '' },
	'open to others' => sub { chmod 0666, last_id_object($node) },
);
foreach my $how (sort keys %spoil)
{
	$bound_ms = bound_ahead(5);
	crash_postmaster($node);
	my $memory = slurp_file(last_id_object($node));
	$spoil{$how}->($memory);
	open(my $object, '>', last_id_object($node)) or die $!;
	print $object $memory;
	close $object;
	$node->start;
	my $id = $node->safe_psql('postgres', "SET leaf.wait_timeout = '60s'; SELECT leaf_snowflake_nextval()");
	cmp_ok(id_time($id), '>=', $bound_ms, "memory that is $how: the first id is past the bound");
	if ($how eq 'open to others')
	{
		like(server_log_since($node), qr/could not map shared memory object .*Permission denied/, 'and the log says so');
		$node->stop;
		unlink last_id_object($node);
		$node->start;
	}
}

# After a crash of the machine: the bound, at most.
$bound_ms = bound_ahead(15);
crash_machine($node);
$node->start;
is(status($node, 'state'), 'starting', 'after a crash of the machine the node waits');
wait_until('the node to say for what', sub { status($node, 'detail') =~ /^Ids may exist up to / });
my $id;
$seconds = seconds_of(sub {
	$id = $node->safe_psql('postgres', "SET leaf.wait_timeout = '60s'; SELECT leaf_snowflake_nextval()");
});
cmp_ok($seconds, '<', 15.5, 'for leaf.time_bound_ahead at most, without an error');
cmp_ok(id_time($id), '>=', $bound_ms, 'the first id is past the bound');
is(alarms($node), '', 'nor does that raise an alarm');

# A call that can't wait so long is told.
bound_ahead(15);
crash_machine($node);
$node->start;
fails_with($node, "SET leaf.wait_timeout = '10ms'; SELECT leaf_snowflake_nextval()", '55000',
	qr/snowflake ids are not available yet.*DETAIL:.*Ids may exist up to.*HINT:.*leaf\.wait_timeout/s,
	'a call waits no longer than leaf.wait_timeout');

$node->stop('immediate');
done_testing();
