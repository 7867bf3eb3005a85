# LeafTest/Clock.pm
#	Servers under libfaketime, whose clock a test moves while they run.
#
# The clock is an offset to the real one, kept in a file that the library reads
# at every call; monotonic clocks stay as they are. One clock may serve several
# servers, and each may have its own.
#
#	my $clock = LeafTest::Clock->new;
#	$clock->run(sub { $node->start });
#	$clock->move(-2);		# seconds; fractions are fine
#	$clock->run(sub { $node->restart });
package LeafTest::Clock;

use strict;
use warnings FATAL => 'all';

use POSIX ();
use PostgreSQL::Test::Utils;

sub new
{
	my ($class) = @_;
	my ($library) = glob '/usr/lib/*/faketime/libfaketime.so.1';

	die 'libfaketime is not installed (Debian: faketime)' unless $library;
	my $self = bless {
		library => $library,
		file => PostgreSQL::Test::Utils::tempdir() . '/offset'
	}, $class;
	$self->move(0);
	return $self;
}

# Sets the clock $offset seconds from the real one.
sub move
{
	my ($self, $offset) = @_;

	$self->_write(sprintf '%+.6f', $offset);
	return;
}

sub _write
{
	my ($self, $line) = @_;

	# Renamed into place: a server never reads half an offset.
	open(my $file, '>', "$self->{file}.new")
	  or die "could not open \"$self->{file}.new\": $!";
	print $file "$line\n";
	close $file;
	rename("$self->{file}.new", $self->{file})
	  or die "could not rename \"$self->{file}.new\": $!";
	return;
}

# Stops the clock at that time, seconds since 1970, until the next move.
sub freeze
{
	my ($self, $seconds) = @_;

	$self->_write(POSIX::strftime('%Y-%m-%d %H:%M:%S', localtime $seconds));
	return;
}

# Runs $code, which starts servers, so that they live by this clock.
sub run
{
	my ($self, $code) = @_;

	local $ENV{LD_PRELOAD} = $self->{library};
	local $ENV{FAKETIME_TIMESTAMP_FILE} = $self->{file};
	local $ENV{FAKETIME_NO_CACHE} = 1;
	local $ENV{FAKETIME_DONT_FAKE_MONOTONIC} = 1;
	return $code->();
}

1;
