# LeafTest/ZooKeeperProxy.pm
#	A network between a node and its ZooKeeper that breaks on command.
#
#	my $proxy = LeafTest::ZooKeeperProxy->new($zk->connect_string(0));
#	... "leaf.zookeeper_servers = '" . $proxy->address . "'" ...
#	$proxy->cut;			# connections die and none is accepted
#	$proxy->freeze;			# connections stay, nothing gets through
#	$proxy->mend;			# of both
#	$proxy->drop_reply(1, 2);	# of the answers to creates two get through;
#								# the third is lost, and the connection with it
#	$proxy->shift_clock(-20000);	# ZooKeeper's clock, in ms, as the node
#									# sees it in what it reads and writes
#	$proxy->sessions;		# [session, password] of every session seen
#	$proxy->expire;			# ends the newest session at the server
#	$proxy->expire_next(9);	# so end the next 9, once each has made a node
#	$proxy->left_to_expire;	# how many of them are still to come
package LeafTest::ZooKeeperProxy;

use strict;
use warnings FATAL => 'all';

use IO::Select;
use IO::Socket::INET;
use LeafTest;
use LeafTest::ZooKeeperClient;
use Socket;

sub new
{
	my ($class, $server) = @_;
	my $self = bless { server => $server }, $class;
	my $listener = IO::Socket::INET->new(
		LocalAddr => '127.0.0.1',
		Listen => 20,
		ReuseAddr => 1) or die "could not listen: $!";
	socketpair(my $ours, my $theirs, AF_UNIX, SOCK_STREAM, PF_UNSPEC)
	  or die "could not make a socket pair: $!";

	$self->{port} = $listener->sockport;
	$self->{pid} = LeafTest::fork_child(
		sub {
			close $ours;
			_serve($listener, $theirs, $server);
		});
	close $theirs;
	close $listener;
	$self->{control} = $ours;
	return $self;
}

sub address
{
	my ($self) = @_;

	return "127.0.0.1:$self->{port}";
}

# Sends a command to the process of the proxy and waits for its answer line.
sub _command
{
	my ($self, $command) = @_;
	my $answer = '';

	syswrite($self->{control}, "$command\n");
	while ($answer !~ /\n$/)
	{
		sysread($self->{control}, $answer, 65536, length $answer)
		  or die 'the proxy is gone';
	}
	chomp $answer;
	return $answer;
}

sub cut { my ($self) = @_; $self->_command('cut'); return; }
sub freeze { my ($self) = @_; $self->_command('freeze'); return; }
sub mend { my ($self) = @_; $self->_command('mend'); return; }

sub drop_reply
{
	my ($self, $type, $skip) = @_;

	$self->_command("drop $type " . ($skip // 0));
	return;
}

sub shift_clock
{
	my ($self, $shift_ms) = @_;

	$self->_command("shift $shift_ms");
	return;
}

# How many answers were dropped so far.
sub dropped { my ($self) = @_; return $self->_command('dropped'); }

sub sessions
{
	my ($self) = @_;

	return map { [ split /:/ ] } split(/ /, $self->_command('sessions'));
}

# The client is kept away meanwhile, or each would take the session from the
# other.
sub expire
{
	my ($self) = @_;
	my ($last) = reverse $self->sessions;

	$self->cut;
	_end_session($self->{server}, @$last);
	$self->mend;
	return;
}

# Ends a session and sees to it that it has ended.
sub _end_session
{
	my ($server, $session, $password) = @_;
	my $continue = sub {
		return eval {
			LeafTest::ZooKeeperClient->new(
				$server,
				session => $session,
				password => pack('H*', $password));
		};
	};

	wait_until(
		'the end of the session',
		sub {
			my $client = $continue->() or return;
			$client->close;
			$client = $continue->() or return;
			return $client->{session} == 0;
		});
	return;
}

sub expire_next
{
	my ($self, $count) = @_;

	$self->_command("expire $count");
	return;
}

sub left_to_expire
{
	my ($self) = @_;

	return $self->_command('left');
}

# The process of the proxy: one select loop.
sub _serve
{
	my ($listener, $control, $server) = @_;
	my $select = IO::Select->new($listener, $control);
	my ($mode, $drop_type, $skip, $dropped, $expiring) = ('open', undef, 0, 0, 0);
	my $shift_ms = 0;
	my @sessions;
	my (%peer, %link);    # socket => its other side; => what is relayed

	my $forget = sub {
		my ($socket) = @_;
		my $other = delete $peer{$socket} or return;

		delete $peer{$other};
		delete $link{$_} foreach $socket, $other;
		$select->remove($socket, $other);
		close $_ foreach $socket, $other;
	};
	my $forget_all = sub {
		my @clients = map { $_->{client} } values %link;
		$forget->($_) foreach @clients;
	};

	while (1)
	{
		foreach my $socket ($select->can_read)
		{
			if ($socket == $control)
			{
				sysread($control, my $command, 4096) or return;
				chomp $command;
				my $answer = 'ok';
				if ($command =~ /^drop (-?\d+) (\d+)/) { ($drop_type, $skip) = ($1, $2); }
				elsif ($command eq 'dropped') { $answer = $dropped; }
				elsif ($command =~ /^expire (\d+)/) { $expiring = $1; }
				elsif ($command eq 'left') { $answer = $expiring; }
				elsif ($command =~ /^shift (-?\d+)/) { $shift_ms = $1; }
				elsif ($command eq 'sessions')
				{
					$answer = join(' ', map { "$_->[0]:$_->[1]" } @sessions);
				}
				else
				{
					$mode = $command;
					$forget_all->() if $mode eq 'cut';
					$mode = 'open' if $mode eq 'mend';
				}
				foreach my $link (values %link)
				{
					my @both = @$link{qw(client server)};

					if ($mode eq 'freeze') { $select->remove(@both); }
					else { $select->add(@both); }
				}
				syswrite($control, "$answer\n");
				last;
			}
			if ($socket == $listener)
			{
				my $client = $listener->accept;
				my $upstream = $mode eq 'cut' ? undef
				  : IO::Socket::INET->new(PeerAddr => $server, Timeout => 2);
				if (!$upstream)
				{
					close $client;
					next;
				}
				my $link = {
					client => $client,
					server => $upstream,
					from_client => '',
					from_server => '',
					types => {},
					primed => 0
				};
				$peer{$client} = $upstream;
				$peer{$upstream} = $client;
				$link{$_} = $link foreach $client, $upstream;
				$select->add($client, $upstream) if $mode ne 'freeze';
				next;
			}

			my $link = $link{$socket} or next;
			my $is_client = $socket == $link->{client};
			my $buffer = $is_client ? 'from_client' : 'from_server';
			my $read = sysread($socket, $link->{$buffer}, 65536,
				length $link->{$buffer});
			if (!$read)
			{
				$forget->($socket);
				next;
			}

			# whole frames only, so that an answer can be told and dropped
			while (length($link->{$buffer}) >= 4)
			{
				my $length = unpack('N', $link->{$buffer});
				last if length($link->{$buffer}) < 4 + $length;
				my $frame = substr($link->{$buffer}, 0, 4 + $length, '');
				my $body = substr($frame, 4);
				my $with_stat = 0;

				if ($is_client)
				{
					my ($xid, $type) = unpack('l> l>', $body);
					$link->{types}{$xid} = $type if $link->{asked}++;
				}
				elsif (!$link->{primed}++)
				{
					my ($session, $password) = (unpack('N N q> N/a*', $body))[ 2, 3 ];
					push @sessions, [ $session, unpack('H*', $password) ]
					  if $session
					  && (!@sessions || $sessions[-1][0] != $session);
				}
				else
				{
					my $type = delete $link->{types}{ unpack('l>', $body) } // 0;
					$with_stat = $type == 4 || $type == 5;
					if (defined $drop_type && $type == $drop_type && $skip-- <= 0)
					{
						$drop_type = undef;
						$dropped++;
						$forget->($socket);
						last;
					}
					if ($expiring > 0 && $type == 1)
					{
						$expiring--;
						$forget->($socket);
						_end_session($server, @{ $sessions[-1] });
						last;
					}
				}
				substr($frame, -44, 8) =
				  pack('q>', unpack('q>', substr($frame, -44, 8)) + $shift_ms)
				  if $with_stat && $shift_ms && length($frame) >= 68;
				syswrite($peer{$socket}, $frame);
			}
		}
	}
}

1;
