# LeafTest/ZooKeeperClient.pm
#	A minimal ZooKeeper client, to see what leaf wrote and to act as others.
#
#	my $client = LeafTest::ZooKeeperClient->new($zk->connect_string(0));
#	$client->create('/a', 'data');			# the path, undef if it failed
#	$client->children('/a');				# sorted names
#	my ($data, $stat) = $client->get('/a');
#
# Synchronous, one server, open ACLs. $client->{error} is ZooKeeper's code of
# the last operation (0: it worked). With session and password of somebody
# else's session it continues that one, and ->close ends it: that is how a
# session is made to expire.
package LeafTest::ZooKeeperClient;

use strict;
use warnings FATAL => 'all';

use IO::Socket::INET;

use constant {
	EPHEMERAL => 1,
	SEQUENTIAL => 2
};

# $server: host:port. Options: timeout_ms, session, password, auth.
sub new
{
	my ($class, $server, %option) = @_;
	my $self = bless { xid => 0 }, $class;

	$self->{socket} =
	  IO::Socket::INET->new(PeerAddr => $server, Timeout => 5)
	  or die "could not connect to $server: $!";
	_send_frame($self->{socket},
		pack('N q> N q> N/a* C',
			0, 0, $option{timeout_ms} // 30000,
			$option{session} // 0,
			$option{password} // "\0" x 16, 0));
	my $reply = _read_frame($self->{socket}) // die "no answer from $server";
	(undef, $self->{timeout_ms}, $self->{session}, $self->{password}) =
	  unpack('N N q> N/a*', $reply);
	if ($option{auth})
	{
		_send_frame($self->{socket},
			pack('l> l> N N/a* N/a*', -4, 100, 0, 'digest', $option{auth}));
		_read_frame($self->{socket});
	}
	return $self;
}

sub _send_frame
{
	my ($socket, $frame) = @_;

	syswrite($socket, pack('N/a*', $frame));
	return;
}

sub _read_bytes
{
	my ($socket, $count) = @_;
	my $bytes = '';

	while (length($bytes) < $count)
	{
		sysread($socket, $bytes, $count - length($bytes), length($bytes))
		  or return;
	}
	return $bytes;
}

sub _read_frame
{
	my ($socket) = @_;
	my $length = _read_bytes($socket, 4) // return;

	return _read_bytes($socket, unpack('N', $length));
}

# Sends one request; the payload of its answer, undef if it failed.
sub _call
{
	my ($self, $type, $payload) = @_;
	my $xid = ++$self->{xid};

	_send_frame($self->{socket}, pack('l> l>', $xid, $type) . $payload);
	while (1)
	{
		my $frame = _read_frame($self->{socket}) // die 'connection lost';
		my ($answered, undef, $error, $answer) = unpack('l> q> l> a*', $frame);

		next if $answered != $xid;
		$self->{error} = $error;
		return $error == 0 ? $answer : undef;
	}
}

sub create
{
	my ($self, $path, $data, $flags) = @_;
	my $acl = pack('N N N/a* N/a*', 1, 31, 'world', 'anyone');
	my $answer = $self->_call(1,
		pack('N/a* N/a*', $path, $data // '') . $acl . pack('N', $flags // 0))
	  // return;

	return unpack('N/a*', $answer);
}

# Creates a path with all that is above it.
sub create_path
{
	my ($self, $path, $data) = @_;
	my @parts = split(/\//, substr($path, 1));

	foreach my $last (0 .. $#parts)
	{
		$self->create('/' . join('/', @parts[ 0 .. $last ]),
			$last == $#parts ? $data : '');
	}
	return;
}

sub set
{
	my ($self, $path, $data) = @_;

	return defined $self->_call(5, pack('N/a* N/a* l>', $path, $data, -1));
}

sub delete
{
	my ($self, $path) = @_;

	return defined $self->_call(2, pack('N/a* l>', $path, -1));
}

# Deletes a path with all that is below it.
sub delete_path
{
	my ($self, $path) = @_;

	$self->delete_path("$path/$_") foreach $self->children($path);
	return $self->delete($path);
}

# (data, { mtime, version, owner, ... }), or nothing.
sub get
{
	my ($self, $path) = @_;
	my $answer = $self->_call(4, pack('N/a* C', $path, 0)) // return;
	my ($data, @stat) =
	  unpack('N/a* q> q> q> q> l> l> l> q> l> l> q>', $answer);
	my %stat;

	@stat{qw(czxid mzxid ctime mtime version cversion aversion owner)} = @stat;
	return ($data, \%stat);
}

sub children
{
	my ($self, $path) = @_;
	my $answer = $self->_call(8, pack('N/a* C', $path, 0)) // return ();
	my ($count, $names) = unpack('l> a*', $answer);

	my @names = sort(unpack("(N/a*)$count", $names));
	return @names;
}

# The ACL of a node as 'perms:scheme:id' strings.
sub acl
{
	my ($self, $path) = @_;
	my $answer = $self->_call(6, pack('N/a*', $path)) // return;
	my ($count, $rest) = unpack('l> a*', $answer);
	my @fields = unpack("(N N/a* N/a*)$count", $rest);
	my @acl;

	push @acl, join(':', splice(@fields, 0, 3)) while @fields;
	return @acl;
}

# Ends the session; its ephemerals are gone when this returns.
sub close
{
	my ($self) = @_;

	# The server may close the connection instead of an answer.
	eval { $self->_call(-11, '') };
	close(delete $self->{socket});
	return;
}

1;
