# LeafTest/Ids.pm
#	Clients that write down each id the moment it is returned, outside the
#	database, and the check of what they wrote.
#
# A client is a psql that runs one statement over and over. For each id in the
# statement's result (its first column) a line "start end id" is written at
# once, unbuffered, with the monotonic times in ns at which the call was sent
# and its result was read. A client whose server is gone connects again and
# goes on, so one recorder lasts over any number of crashes and restarts.
#
#	my $ids = LeafTest::Ids->new;
#	$ids->start($node, "INSERT INTO t DEFAULT VALUES RETURNING id", clients => 4);
#	$ids->wait_for_more(1000);
#	crash_postmaster($node); $node->start;
#	$ids->wait_for_more(1000);
#	$ids->stop;
#	$ids->check_ok('ids are unique and ordered');
package LeafTest::Ids;

use strict;
use warnings FATAL => 'all';

use LeafTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

# One recorder holds the ids that must differ from each other: of one tag, or
# of all snowflake nodes.
sub new
{
	my ($class) = @_;

	return bless {
		dir => PostgreSQL::Test::Utils::tempdir(),
		pids => [],
		started => 0,
		count => 0,
		counted => []
	}, $class;
}

# Starts clients that run $sql until stop. Options: clients (1), dbname
# (postgres), user. May be called again, for another node or statement.
sub start
{
	my ($self, $node, $sql, %option) = @_;
	my $connstr = $node->connstr($option{dbname} // 'postgres');
	my @psql = ($node->installed_command('psql'), '-XAtq', '-F', ' ', '-d');

	$connstr .= " user=$option{user}" if $option{user};
	foreach (1 .. $option{clients} // 1)
	{
		my $file = "$self->{dir}/" . $self->{started}++;

		push @{ $self->{pids} },
		  LeafTest::fork_child(
			sub { _record($file, $sql, @psql, $connstr) });
	}
	return;
}

# The client process. It ends on TERM, which is let through between two calls,
# so that no returned id goes unrecorded.
sub _record
{
	my ($file, $sql, @psql) = @_;
	my $parent = getppid;
	my $stop = 0;

	local $SIG{TERM} = sub { $stop = 1 };
	open(my $ids, '>>', "$file.ids") or die "could not open \"$file.ids\": $!";

	while (!$stop)
	{
		my ($psql, $query, $answer) = _connect("$file.err", @psql);

		while (!$stop && getppid == $parent)
		{
			my ($start, @rows) = (_now());

			last unless syswrite($query, "$sql;\n\\echo end\n");
			my $complete = _read_answer($answer, \@rows);
			my $end = _now();

			syswrite($ids, join('', map { "$start $end $_\n" } @rows))
			  if @rows;
			last unless $complete;
		}
		close $query;
		close $answer;
		waitpid($psql, 0);

		last if getppid != $parent;
		# The server is down; nothing to do until it is back.
		LeafTest::pause() unless $stop;
	}
	close $ids;
	return;
}

sub _connect
{
	my ($log, @psql) = @_;

	pipe(my $query_in, my $query) or die "could not create pipe: $!";
	pipe(my $answer, my $answer_out) or die "could not create pipe: $!";
	my $pid = fork // die "could not fork: $!";
	if ($pid == 0)
	{
		open(my $err, '>>', $log) or POSIX::_exit(126);
		POSIX::dup2(fileno($query_in), 0);
		POSIX::dup2(fileno($answer_out), 1);
		POSIX::dup2(fileno($err), 2);
		exec(@psql) or POSIX::_exit(127);
	}
	close $query_in;
	close $answer_out;
	return ($pid, $query, $answer);
}

# Collects the ids of one answer; true when it is complete. Ids of an answer
# that broke off were returned as well, but a last line without its end is not
# an id.
sub _read_answer
{
	my ($answer, $rows) = @_;
	my $buffer = '';

	while (1)
	{
		my $read = sysread($answer, $buffer, 65536, length $buffer);

		next if !defined $read && $!{EINTR};
		if (!$read || $buffer =~ /^end\n\z/m)
		{
			push @$rows, $buffer =~ /^(-?\d+)(?: .*)?\n/mg;
			return $read ? 1 : 0;
		}
	}
}

sub _now
{
	return sprintf('%.0f', 1e9 * clock_gettime(CLOCK_MONOTONIC));
}

# Ends all clients and waits for them.
sub stop
{
	my ($self) = @_;

	kill('TERM', $_) foreach @{ $self->{pids} };
	LeafTest::reap($_) foreach @{ $self->{pids} };
	$self->{pids} = [];
	return;
}

# Number of ids written so far. Cheap: reads on where it stopped last time.
sub count
{
	my ($self) = @_;

	foreach my $client (0 .. $self->{started} - 1)
	{
		open(my $file, '<', "$self->{dir}/$client.ids") or next;
		seek($file, $self->{counted}[$client] // 0, 0);
		while (read($file, my $part, 65536))
		{
			$self->{count} += $part =~ tr/\n//;
		}
		$self->{counted}[$client] = tell $file;
		close $file;
	}
	return $self->{count};
}

# Waits until $n ids more than now are written.
sub wait_for_more
{
	my ($self, $n) = @_;
	my $goal = $self->count + $n;

	wait_until("$n more ids", sub { $self->count >= $goal });
	return;
}

# All ids written so far.
sub ids
{
	my ($self) = @_;
	my @ids;

	$self->_each(sub { push @ids, $_[2] });
	return @ids;
}

# Calls $code with start, end, id, client of each id.
sub _each
{
	my ($self, $code) = @_;

	foreach my $client (0 .. $self->{started} - 1)
	{
		open(my $file, '<', "$self->{dir}/$client.ids") or next;
		while (my $line = <$file>)
		{
			# The client may be writing this very line.
			$code->($1, $2, $3, $client)
			  if $line =~ /^(\d+) (\d+) (-?\d+)\n\z/;
		}
		close $file;
	}
	return;
}

# What the clients' psql wrote to stderr.
sub errors
{
	my ($self) = @_;

	return join '',
	  map { PostgreSQL::Test::Utils::slurp_file($_) }
	  glob "$self->{dir}/*.err";
}

# The violations found, at most ten of each kind, as text: an id returned twice
# (G1), and an id lower than one whose call had ended before its own call began
# or that precedes it in the same answer (G3). Ids of several servers or of
# several workers of a parallel query have no order: unordered => 1.
sub problems
{
	my ($self, %option) = @_;
	my @files = glob "$self->{dir}/*.ids" or return;
	my ($previous, @twice, @order) = ('');

	# Files of millions of lines: sort(1) needs no memory to speak of.
	_each_line(
		sub {
			my ($start, $end, $id) = @_;

			push @twice, "id $id was returned twice" if $id eq $previous && @twice < 10;
			$previous = $id;
		},
		'sort', '-n', '-k3,3', @files);
	return @twice if $option{unordered};

	# Each client's calls begin and end in the order of its file.
	my $ended = _stream('sort', '-m', '-s', '-n', '-k2,2', @files);
	my ($last_start, $last_end, $last_id) = (0, 0, undef);
	my ($end_of_ended, $id_of_ended) = _next($ended);
	my $highest;

	_each_line(
		sub {
			my ($start, $end, $id) = @_;

			while (defined $end_of_ended && $end_of_ended < $start)
			{
				$highest = $id_of_ended if !defined $highest || $id_of_ended > $highest;
				($end_of_ended, $id_of_ended) = _next($ended);
			}
			push @order, "id $id was returned after id $highest"
			  if defined $highest && $id <= $highest && @order < 10;
			push @order, "id $id follows id $last_id in one answer"
			  if $start == $last_start && $end == $last_end && $id <= $last_id && @order < 10;
			($last_start, $last_end, $last_id) = ($start, $end, $id);
		},
		'sort', '-m', '-s', '-n', '-k1,1', @files);
	close $ended;
	return (@twice, @order);
}

# The output of a command over files that hold whole lines, for a client writes
# the ids of an answer with one call.
sub _stream
{
	my (@command) = @_;

	local $ENV{LC_ALL} = 'C';
	open(my $stream, '-|', @command) or die "could not run $command[0]: $!";
	return $stream;
}

# End and id of the next line.
sub _next
{
	my ($stream) = @_;

	while (my $line = <$stream>)
	{
		return ($1, $2) if $line =~ /^\d+ (\d+) (-?\d+)$/;
	}
	return;
}

sub _each_line
{
	my ($code, @command) = @_;
	my $stream = _stream(@command);

	while (my $line = <$stream>)
	{
		$code->($1, $2, $3) if $line =~ /^(\d+) (\d+) (-?\d+)$/;
	}
	close $stream or die "$command[0] failed";
	return;
}

# One test: ids were written, and no violation was found among them.
sub check_ok
{
	my ($self, $name, %option) = @_;
	my $count = $self->count;
	my @problems = $self->problems(%option);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	note "$count ids recorded";
	return ok($count > 0 && !@problems, $name)
	  || diag($count ? join("\n", @problems) : "no id was recorded:\n" . $self->errors);
}

1;
