# LeafTest/Call.pm
#	One statement in a session of its own, in the background: to see that it
#	waits, to interrupt it while it does, and to see how and when it ended.
#
#	my $call = LeafTest::Call->new($node, "SELECT leaf_segment_nextval('t')",
#		wait_timeout => '60s');
#	$call->wait_until_waiting;
#	$node->safe_psql('postgres', 'SELECT pg_cancel_backend(' . $call->pid . ')');
#	$call->finish;
#	is($call->sqlstate, '57014', ...);
package LeafTest::Call;

use strict;
use warnings FATAL => 'all';

use IPC::Run ();
use LeafTest;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

my $started = 0;

# Options: dbname (postgres), user, and settings of the session, by the name
# wait_timeout (leaf.wait_timeout) or their own.
sub new
{
	my ($class, $node, $sql, %option) = @_;
	my $dbname = delete $option{dbname} // 'postgres';
	my $user = delete $option{user};
	my $name = "leaf call $$ " . ++$started;
	my $self = bless {
		node => $node,
		name => $name,
		sql => $sql,
		out => '',
		err => ''
	}, $class;

	$option{'leaf.wait_timeout'} = delete $option{wait_timeout}
	  if exists $option{wait_timeout};
	local $ENV{PGOPTIONS} = join ' ', $ENV{PGOPTIONS} // '',
	  map { "-c $_=$option{$_}" } keys %option;
	local $ENV{PGAPPNAME} = $name;

	my $connstr = $node->connstr($dbname) . ($user ? " user=$user" : '');
	$self->{since} = _now();
	$self->{run} = IPC::Run::start(
		[
			$node->installed_command('psql'), '-XAtq',
			'-v', 'ON_ERROR_STOP=1',
			'-v', 'VERBOSITY=verbose',
			'-d', $connstr,
			'-c', $sql
		],
		'<', \undef, '>', \$self->{out}, '2>', \$self->{err},
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	return $self;
}

sub _now
{
	return clock_gettime(CLOCK_MONOTONIC);
}

# Of the server process; waits until it is there.
sub pid
{
	my ($self) = @_;

	$self->{pid} //= wait_until(
		"the session of \"$self->{sql}\"",
		sub {
			$self->_activity('pid', "state = 'active'");
		});
	return $self->{pid};
}

sub _activity
{
	my ($self, $column, $condition) = @_;

	$self->{run}->pump_nb if $self->{run}->pumpable;
	return $self->{node}->safe_psql('postgres',
		"SELECT $column FROM pg_stat_activity WHERE application_name = '$self->{name}' AND $condition"
	);
}

# Returns once the statement waits inside the extension, for nothing that
# PostgreSQL knows of.
sub wait_until_waiting
{
	my ($self) = @_;

	wait_until(
		"\"$self->{sql}\" to wait",
		sub {
			$self->_activity('pid',
				"state = 'active' AND wait_event_type = 'Extension'");
		});
	return;
}

# Waits for the end; returns the seconds since $since (a time from mark), or
# since the start.
sub finish
{
	my ($self, $since) = @_;

	$self->{run}->finish if $self->{run};
	$self->{run} = undef;
	return _now() - ($since // $self->{since});
}

# Now, for finish.
sub mark { return _now(); }

# What came back: '' after an error.
sub result
{
	my ($self) = @_;

	my $out = $self->{out};
	chomp $out;
	return $out;
}

# The whole error report, with DETAIL and HINT.
sub error { return $_[0]->{err}; }

# Its SQLSTATE, '' where there was none.
sub sqlstate
{
	my ($self) = @_;

	return $self->{err} =~ /(?:ERROR|FATAL|PANIC):\s+(\w{5}):/ ? $1 : '';
}

# The same for a statement that nobody interrupts: started and finished.
sub run
{
	my ($class, @arguments) = @_;
	my $self = $class->new(@arguments);

	$self->{seconds} = $self->finish;
	return $self;
}

sub seconds { return $_[0]->{seconds}; }

1;
