# LeafTest.pm
#	What the TAP tests of leaf share: servers with the extension preloaded,
#	waiting for a condition, and finding and killing the server's processes.
#
# Every process that is started through this module or LeafTest::* is listed in
# @children and is killed and reaped when the test ends, however it ends.
#
#	use LeafTest;
#	my $node = leaf_ready_node('main', 'leaf.max_tags = 10');
#	$node->safe_psql('postgres', "SELECT leaf_segment_nextval('t')");
#	crash_postmaster($node);
#	$node->start;
package LeafTest;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(
  leaf_node leaf_ready_node create_extension wait_until wait_for_server
  server_log_since postmaster_pid server_processes worker_pid backend_pids
  process_gone crash_postmaster crash_backend crash_worker last_id_object
  seconds_allowed
);

# A test that is interrupted must run its END blocks as well.
$SIG{$_} //= sub { exit 130 } foreach qw(INT TERM HUP);

# A test that hangs says so instead of holding up all that follow.
$SIG{ALRM} = sub { die "the test file takes too long\n" };
alarm($ENV{LEAF_TEST_FILE_TIMEOUT} // 600);

my $owner = $$;
my %children;

# Starts @command in a process of its own, its output appended to $log.
# It dies with this script even where no END block runs (kill -9).
sub spawn
{
	my ($log, @command) = @_;

	return fork_child(
		sub {
			open(my $out, '>>', $log) or POSIX::_exit(126);
			POSIX::dup2(fileno($out), 1);
			POSIX::dup2(fileno($out), 2);
			open(my $in, '<', '/dev/null') or POSIX::_exit(126);
			POSIX::dup2(fileno($in), 0);
			exec('setpriv', '--pdeathsig', 'KILL', @command)
			  or POSIX::_exit(127);
		});
}

# Runs $code in a forked process; none of this script's END blocks run there.
sub fork_child
{
	my ($code) = @_;
	my $pid = fork;

	die "could not fork: $!" unless defined $pid;
	if ($pid == 0)
	{
		$SIG{$_} = 'DEFAULT' foreach qw(INT TERM HUP ALRM);
		my $ok = eval { $code->(); 1 };
		syswrite(STDERR, $@) unless $ok;
		POSIX::_exit($ok ? 0 : 1);
	}
	$children{$pid} = 1;
	return $pid;
}

# Waits for a process from spawn or fork_child, after sending $signal if given;
# returns its wait status.
sub reap
{
	my ($pid, $signal) = @_;

	kill($signal, $pid) if $signal;
	waitpid($pid, 0);
	my $status = $?;
	delete $children{$pid};
	return $status;
}

END
{
	# Later END blocks and the test's exit code must not see our waitpid.
	my $exit_code = $?;

	if ($$ == $owner)
	{
		reap($_, 'KILL') foreach keys %children;
	}
	$? = $exit_code;
}

my @nodes;

# An initialised node with leaf preloaded and the lines of @conf in its
# configuration; not started. Unlike PostgreSQL's own default for tests it
# comes back after a crash, and it logs no statements.
sub leaf_node
{
	my ($name, @conf) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	push @nodes, $node;
	$node->init;
	$node->append_conf('postgresql.conf',
		join("\n",
			"shared_preload_libraries = 'leaf'", 'restart_after_crash = on',
			'log_statement = none', @conf, ''));
	return $node;
}

# What a server that is killed leaves in memory for its next start.
sub last_id_object
{
	my ($node) = @_;
	my ($device, $inode) = stat($node->data_dir) or return '';

	return sprintf('/dev/shm/leaf.%x.%x', $device, $inode);
}

# Nobody starts them again.
END
{
	unlink map { last_id_object($_) } @nodes;
}

# The same, started, with the extension in database postgres.
sub leaf_ready_node
{
	my $node = leaf_node(@_);

	$node->start;
	create_extension($node);
	return $node;
}

sub create_extension
{
	my ($node, $dbname) = @_;

	$node->safe_psql($dbname // 'postgres', 'CREATE EXTENSION leaf');
	return;
}

# The time between two looks at a condition; for wait_until and its like only.
sub pause
{
	select(undef, undef, undef, 0.05);
	return;
}

# How long something may take that is to take less than $seconds: so long, unless
# the machine is so busy that something else of its kind takes long, too.
sub seconds_allowed
{
	my ($seconds, $unhindered) = @_;

	return $unhindered < $seconds / 4 ? $seconds : $seconds + 2 * $unhindered;
}

# Waits until $condition->() is true and returns its value; dies after
# $timeout seconds.
sub wait_until
{
	my ($what, $condition, $timeout) = @_;
	my $end = time + ($timeout // $PostgreSQL::Test::Utils::timeout_default);

	while (1)
	{
		my $value = $condition->();

		return $value if $value;
		die "timed out waiting for $what" if time > $end;
		pause();
	}
}

# Waits until the server accepts connections again, after a crash.
sub wait_for_server
{
	my ($node) = @_;

	# Not $node->psql: it writes to psql's stdin, which breaks as a pipe where
	# psql is quick to find no server.
	my @psql = ($node->installed_command('psql'), '-XAtqc', 'SELECT 1', '-d', $node->connstr('postgres'));

	wait_until('the server to accept connections',
		sub { (PostgreSQL::Test::Utils::run_command(\@psql))[0] eq '1' });
	return;
}

# The server log from byte $offset on; take the offset with -s $node->logfile.
sub server_log_since
{
	my ($node, $offset) = @_;

	return PostgreSQL::Test::Utils::slurp_file($node->logfile, $offset // 0);
}

sub postmaster_pid
{
	my ($node) = @_;

	open(my $file, '<', $node->data_dir . '/postmaster.pid') or return;
	my $pid = <$file>;
	close $file;
	return unless defined $pid && $pid =~ /^(\d+)/;
	return $1;
}

# All children of the postmaster: pid => process title.
sub server_processes
{
	my ($node) = @_;
	my $postmaster = postmaster_pid($node) or return;
	my %title;

	foreach my $line (`ps -ww -o pid=,args= --ppid $postmaster`)
	{
		$title{$1} = $2 if $line =~ /^\s*(\d+)\s+(.*?)\s*$/;
	}
	return %title;
}

# Pid of a worker ('leaf refill', 'leaf node'), undef where there is none; of
# the one in database $dbname, if given. 'leaf node' is found by its title: it
# is not in pg_stat_activity, which lists what is connected to a database.
sub worker_pid
{
	my ($node, $type, $dbname) = @_;

	if (defined $dbname)
	{
		my ($rc, $out) = $node->psql('postgres',
			"SELECT pid FROM pg_stat_activity WHERE backend_type = '$type' AND datname = '$dbname'"
		);
		return $rc == 0 && $out =~ /^(\d+)$/ ? $1 : undef;
	}

	my %title = server_processes($node);
	my @pids = grep { $title{$_} =~ /\b\Q$type\E\b/ } keys %title;
	return $pids[0];
}

# Pids of the client backends.
sub backend_pids
{
	my ($node) = @_;
	my ($rc, $out) = $node->psql('postgres',
		"SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
	);

	return $rc == 0 ? split(/\n/, $out) : ();
}

# Whether a process is gone; one that is dead and not yet reaped is.
sub process_gone
{
	my ($pid) = @_;

	open(my $file, '<', "/proc/$pid/stat") or return 1;
	my $stat = <$file>;
	close $file;
	return !defined $stat || $stat =~ /\) [ZX]/;
}

# kill -9 of the postmaster. Returns once the last of its children has noticed,
# so that $node->start works at once.
sub crash_postmaster
{
	my ($node) = @_;
	my %title = server_processes($node);
	my $postmaster = postmaster_pid($node);

	$node->kill9;
	# Its lock file holds as long as its pid exists, be it as a zombie.
	wait_until('the postmaster to end', sub { !kill(0, $postmaster) });
	foreach my $pid (keys %title)
	{
		wait_until("process $pid ($title{$pid}) to end",
			sub { process_gone($pid) });
	}
	return;
}

# kill -9 of a process of the server, which then restarts itself; returns once
# it accepts connections again.
sub crash_process
{
	my ($node, $pid) = @_;
	my %title = server_processes($node);

	kill('KILL', $pid) or return 0;
	foreach my $other (keys %title)
	{
		wait_until("process $other ($title{$other}) to end",
			sub { process_gone($other) });
	}
	wait_for_server($node);
	return 1;
}

# kill -9 of a client backend chosen at random; false where there is none.
sub crash_backend
{
	my ($node) = @_;
	my @pids = backend_pids($node) or return 0;

	return crash_process($node, $pids[ rand @pids ]);
}

# kill -9 of a worker; false where there is none.
sub crash_worker
{
	my ($node, $type, $dbname) = @_;
	my $pid = worker_pid($node, $type, $dbname) or return 0;

	return crash_process($node, $pid);
}

1;
