# G2, G5: with a synchronous standby a segment is used only once the standby has
# confirmed it, so that no id comes again after a failover; until then callers
# get 55P03 in time, and neither a cancel nor a kill of the worker's wait makes
# the segment look confirmed.
#
# pg_regress can't reach it: it takes a synchronous standby that is stopped,
# comes back, and takes over.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeafTest;
use LeafTest::Ids;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', q(
	shared_preload_libraries = 'leaf'
	log_statement = none
	max_connections = 30
	leaf.segment_duration = 0
));
$primary->start;
create_extension($primary);
$primary->safe_psql('postgres', q(
	INSERT INTO leaf_alloc (biz_tag, step) VALUES ('orders', 100), ('fresh', 100);
	CREATE TABLE orders (
		id bigint PRIMARY KEY DEFAULT leaf_segment_nextval('orders'));
));
$primary->backup('base');

my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
$primary->safe_psql('postgres',
	"ALTER SYSTEM SET synchronous_standby_names = 'standby'");
$primary->reload;
$primary->poll_query_until('postgres',
	"SELECT sync_state = 'sync' FROM pg_stat_replication")
  or die 'the standby did not become synchronous';

my $ids = LeafTest::Ids->new;

# One call with its own time limit: (id or SQLSTATE, seconds)
sub call
{
	my ($tag, $timeout) = @_;
	my $start = time;
	my ($rc, $out, $err) = $primary->psql('postgres',
		"\\set VERBOSITY verbose\n"
		  . "SET synchronous_commit = local; SET leaf.wait_timeout = '$timeout';\n"
		  . "SELECT leaf_segment_nextval('$tag')");

	return ($rc == 0 ? $out : $err =~ /ERROR:\s+(\w{5}):/ ? $1 : $err,
		time - $start);
}

$ids->start($primary, "SELECT leaf_segment_nextval('orders')", clients => 2);
$ids->wait_for_more(500);
$ids->stop;
$ids->check_ok('with the standby up: ids flow');

$standby->stop('immediate');

# 'fresh' has no segment: its first call needs a reservation that nobody
# confirms.
my ($answer, $took) = call('fresh', '1s');
is($answer, '55P03', 'standby down: no id from a segment it has not confirmed');
cmp_ok($took, '>=', 1, 'the call waited for leaf.wait_timeout');
cmp_ok($took, '<', 5, 'and not much longer');

# What is in the buffers was confirmed and goes on being served, without a
# wait, to its end; then this tag waits too.
my $served = 0;
while ($served <= 1000)
{
	($answer, $took) = call('orders', '200ms');
	last unless $answer =~ /^\d+$/;
	$served++;
}
cmp_ok($served, '>', 0, "standby down: the buffers served $served ids more");
is($answer, '55P03', 'then the tag waits as well');

# The worker's wait for the standby can be cancelled; the segment stays
# unconfirmed all the same.
foreach my $function (qw(pg_cancel_backend pg_terminate_backend))
{
	my $pid = wait_until('the worker',
		sub { worker_pid($primary, 'leaf refill', 'postgres') });

	$primary->safe_psql('postgres', "SELECT $function($pid)");
	($answer, $took) = call('fresh', '1s');
	is($answer, '55P03', "standby down: no id after $function of the worker");
}

# Nothing else of the server is held up by that wait.
my $local = 'SET synchronous_commit = local; SET statement_timeout = 2000;';
$primary->safe_psql('postgres', "$local CREATE DATABASE other");
is(($primary->psql('postgres', "$local DROP DATABASE other"))[0],
	0, 'DROP DATABASE of another database goes through');

# The standby is back: the tags work.
$standby->start;
($answer, $took) = call('fresh', '30s');
like($answer, qr/^\d+$/, 'standby back: a waiting call gets its id');
$ids->start($primary, "SELECT leaf_segment_nextval('orders')", clients => 2);
$ids->wait_for_more(500);

# Failover under load: nothing that a client has seen comes again.
crash_postmaster($primary);
$ids->stop;
$standby->promote;
$ids->start($standby, "SELECT leaf_segment_nextval('orders')", clients => 2);
$ids->wait_for_more(500);
$ids->stop;
$ids->check_ok('G1, G3: unique and ordered over the failover to a synchronous standby');

my $fresh = $standby->safe_psql('postgres', "SELECT leaf_segment_nextval('fresh')");
cmp_ok($fresh, '>', $answer, 'the other tag goes on above its last id');

$standby->stop;
done_testing();
