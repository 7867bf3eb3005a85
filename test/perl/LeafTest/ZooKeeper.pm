# LeafTest/ZooKeeper.pm
#	A real ZooKeeper of one server or of several, on loopback and free ports,
#	to be frozen, killed and started again.
#
#	my $zk = LeafTest::ZooKeeper->new(servers => 3);
#	$zk->start;								# all of them; waits until they serve
#	... "leaf.zookeeper_servers = '" . $zk->connect_string . "'" ...
#	$zk->freeze(0); $zk->thaw(0); $zk->kill(1); $zk->start(1);
package LeafTest::ZooKeeper;

use strict;
use warnings FATAL => 'all';

use File::Path qw(remove_tree);
use IO::Socket::INET;
use LeafTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;

# Options: servers (1), tick_ms (2000; sessions last 2 to 20 ticks), conf
# (further lines of zoo.cfg).
sub new
{
	my ($class, %option) = @_;
	my $self = bless {
		dir => PostgreSQL::Test::Utils::tempdir(),
		servers => []
	}, $class;

	foreach (1 .. $option{servers} // 1)
	{
		push @{ $self->{servers} },
		  {
			client_port => PostgreSQL::Test::Cluster::get_free_port(),
			quorum_port => PostgreSQL::Test::Cluster::get_free_port(),
			election_port => PostgreSQL::Test::Cluster::get_free_port()
		  };
	}
	$self->_configure($_, $option{tick_ms} // 2000, @{ $option{conf} // [] })
	  foreach $self->all;
	return $self;
}

sub _configure
{
	my ($self, $i, $tick_ms, @conf) = @_;
	my @servers = @{ $self->{servers} };
	my $dir = "$self->{dir}/$i";
	my @lines = (
		"tickTime=$tick_ms", 'initLimit=10', 'syncLimit=5', "dataDir=$dir/data",
		"clientPort=$servers[$i]{client_port}", 'clientPortAddress=127.0.0.1',
		'admin.enableServer=false', '4lw.commands.whitelist=*',
		'maxClientCnxns=0', @conf);

	if (@servers > 1)
	{
		push @lines,
		  map { "server.$_=127.0.0.1:$servers[$_]{quorum_port}:$servers[$_]{election_port}" }
		  $self->all;
	}
	mkdir $dir or die "could not create \"$dir\": $!";
	mkdir "$dir/data" or die "could not create \"$dir/data\": $!";
	PostgreSQL::Test::Utils::append_to_file("$dir/zoo.cfg", join("\n", @lines, ''));
	PostgreSQL::Test::Utils::append_to_file("$dir/data/myid", "$i\n");
	return;
}

# Numbers of all servers.
sub all
{
	my ($self) = @_;

	return 0 .. $#{ $self->{servers} };
}

# For leaf.zookeeper_servers; of the given servers, or of all.
sub connect_string
{
	my ($self, @which) = @_;

	return join ',', map { "127.0.0.1:$self->{servers}[$_]{client_port}" }
	  @which ? @which : $self->all;
}

# Starts the given servers, or all, and waits until they serve clients.
sub start
{
	my ($self, @which) = @_;

	@which = $self->all unless @which;
	$self->start_without_waiting($_) foreach @which;
	foreach my $i (@which)
	{
		wait_until("ZooKeeper server $i (log: $self->{dir}/$i/log)",
			sub { $self->mode($i) });
	}
	return;
}

# One server of three does not serve before a second one is there.
sub start_without_waiting
{
	my ($self, $i) = @_;
	my $dir = "$self->{dir}/$i";

	$self->{servers}[$i]{pid} = LeafTest::spawn(
		"$dir/log",
		'java', '-Xmx128m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1',
		'-cp', '/etc/zookeeper/conf:/usr/share/java/zookeeper.jar',
		'org.apache.zookeeper.server.quorum.QuorumPeerMain', "$dir/zoo.cfg");
	return;
}

# 'standalone', 'leader' or 'follower'; undef while the server does not serve.
sub mode
{
	my ($self, $i) = @_;

	return ($self->ask($i, 'srvr') // '') =~ /^Mode: (\w+)/m ? $1 : undef;
}

# Number of the leader, undef while there is none.
sub leader
{
	my ($self) = @_;

	foreach my $i ($self->all)
	{
		next unless $self->{servers}[$i]{pid};
		my $mode = $self->mode($i) // next;
		return $i if $mode ne 'follower';
	}
	return;
}

# The answer to one of ZooKeeper's four-letter words, undef without one.
sub ask
{
	my ($self, $i, $word) = @_;
	my $socket = IO::Socket::INET->new(
		PeerAddr => '127.0.0.1',
		PeerPort => $self->{servers}[$i]{client_port},
		Timeout => 1) or return;
	my $answer = '';

	syswrite($socket, $word);
	# A frozen server accepts the connection and never answers.
	vec(my $readable = '', fileno($socket), 1) = 1;
	while (select(my $ready = $readable, undef, undef, 1) > 0)
	{
		last unless sysread($socket, $answer, 65536, length $answer);
	}
	close $socket;
	return $answer;
}

# Stops the given servers, or all: cleanly (TERM), or with kill -9.
sub stop { my ($self, @which) = @_; return $self->_end('TERM', @which); }
sub kill { my ($self, @which) = @_; return $self->_end('KILL', @which); }

sub _end
{
	my ($self, $signal, @which) = @_;

	foreach my $i (@which ? @which : $self->all)
	{
		my $pid = delete $self->{servers}[$i]{pid} // next;
		LeafTest::reap($pid, $signal);
	}
	return;
}

# SIGSTOP: connections stay open and nothing answers; and back.
sub freeze { my ($self, @which) = @_; return $self->_signal('STOP', @which); }
sub thaw   { my ($self, @which) = @_; return $self->_signal('CONT', @which); }

sub _signal
{
	my ($self, $signal, @which) = @_;

	foreach my $i (@which ? @which : $self->all)
	{
		CORE::kill($signal, $self->{servers}[$i]{pid} // next);
	}
	return;
}

# Forgets all data of the given servers (stopped ones), or of all.
sub wipe
{
	my ($self, @which) = @_;

	foreach my $i (@which ? @which : $self->all)
	{
		remove_tree("$self->{dir}/$i/data/version-2");
	}
	return;
}

1;
