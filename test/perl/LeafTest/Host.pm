# LeafTest/Host.pm
#	Servers that live on a host of another name, and that have a name server
#	for the name "peers.test". Both may be changed while they run.
#
#	my $host = LeafTest::Host->new;
#	$host->name('leaf-3');
#	$host->addresses('127.0.0.2', '127.0.0.3');		# or 'hang'
#	$host->run(sub { $node->start });
package LeafTest::Host;

use strict;
use warnings FATAL => 'all';

use File::Basename;
use PostgreSQL::Test::Utils;

sub new
{
	my ($class) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my $self = bless { dir => $dir, library => "$dir/host.so" }, $class;
	my $source = dirname(__FILE__) . '/../../lib/host.c';

	system($ENV{CC} // 'cc', '-shared', '-fPIC', '-Wall', '-o', $self->{library}, $source, '-ldl') == 0
	  or die "could not build \"$source\"";
	return $self;
}

sub name
{
	my ($self, $name) = @_;

	$self->_write('name', $name);
	return;
}

sub addresses
{
	my ($self, @addresses) = @_;

	$self->_write('addresses', join(' ', @addresses));
	return;
}

sub _write
{
	my ($self, $file, $line) = @_;

	# Renamed into place: a server never reads half a line.
	open(my $out, '>', "$self->{dir}/$file.new") or die "could not open \"$self->{dir}/$file.new\": $!";
	print $out "$line\n";
	close $out;
	rename("$self->{dir}/$file.new", "$self->{dir}/$file") or die "could not rename: $!";
	return;
}

# Runs $code, which starts servers, so that they live on this host; inside
# LeafTest::Clock's run, also by that clock.
sub run
{
	my ($self, $code) = @_;

	local $ENV{LD_PRELOAD} = join ':', grep { $_ } $ENV{LD_PRELOAD}, $self->{library};
	local $ENV{LEAF_TEST_HOSTNAME} = "$self->{dir}/name";
	local $ENV{LEAF_TEST_ADDRESSES} = "$self->{dir}/addresses";
	return $code->();
}

1;
