# LeafTest/Snowflake.pm
#	What the tests of snowflake ids share: nodes with a worker id, their state,
#	and statements that must fail in a certain way.
package LeafTest::Snowflake;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use LeafTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC CLOCK_REALTIME);

our @EXPORT = qw(
  snowflake_conf snowflake_node status wait_for_state next_id id_time
  fails_with seconds_of alarms state_file wall_ms crash_machine
);

use constant EPOCH_MS => 1288834974657;

# The settings of a node with a worker id by hand.
sub snowflake_conf
{
	my ($worker_id, @conf) = @_;

	return ("leaf.worker_id_source = 'static'", "leaf.worker_id = $worker_id", @conf);
}

# A started node of that worker id, with the extension.
sub snowflake_node
{
	my ($name, $worker_id, @conf) = @_;

	return leaf_ready_node($name, snowflake_conf($worker_id, @conf));
}

# One column of leaf_snowflake_status; '' is null.
sub status
{
	my ($node, $column) = @_;

	return $node->safe_psql('postgres', "SELECT $column FROM leaf_snowflake_status");
}

# Waits until the node says that state, and that reason if given.
sub wait_for_state
{
	my ($node, $state, $reason) = @_;
	my $wanted = $state . '|' . ($reason // '');

	wait_until("state $wanted of " . $node->name,
		sub { status($node, 'state, reason') eq $wanted });
	return;
}

sub next_id
{
	my ($node) = @_;

	return $node->safe_psql('postgres', 'SELECT leaf_snowflake_nextval()');
}

# The time of an id, ms since 1970, as the server's clock had it.
sub id_time
{
	my ($id) = @_;

	return ($id >> 22) + EPOCH_MS;
}

# What is left after a crash of the whole machine: what was flushed to disk.
sub crash_machine
{
	my ($node) = @_;

	crash_postmaster($node);
	unlink(last_id_object($node)) or die "no last id was kept: $!";
	return;
}

sub wall_ms
{
	return int(1000 * clock_gettime(CLOCK_REALTIME));
}

# One test: the statement ends with that SQLSTATE and an error like $error.
sub fails_with
{
	my ($node, $sql, $sqlstate, $error, $name) = @_;
	my ($rc, $out, $err) =
	  $node->psql('postgres', $sql, extra_params => [ '-v', 'VERBOSITY=verbose' ]);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return ok($rc != 0 && $err =~ /ERROR:  \Q$sqlstate\E:/ && $err =~ $error, $name)
	  || diag("rc $rc, stdout \"$out\", stderr \"$err\"");
}

# How long $code takes.
sub seconds_of
{
	my ($code) = @_;
	my $start = clock_gettime(CLOCK_MONOTONIC);

	$code->();
	return clock_gettime(CLOCK_MONOTONIC) - $start;
}

# The alarms as "source: message" lines.
sub alarms
{
	my ($node) = @_;

	return $node->safe_psql('postgres',
		"SELECT source || ': ' || message FROM leaf_alarms ORDER BY source");
}

sub state_file
{
	my ($node) = @_;

	return $node->data_dir . '/leaf_node.state';
}

1;
