# G1: blocks that are waited for while the slots of their table are given back,
# by a DROP EXTENSION that is rolled back: nobody collects what another ordered.
#
# pg_regress can't reach it: it takes sessions that wait at once, and a worker
# that is held up.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeafTest;
use LeafTest::Call;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = leaf_ready_node('main', 'leaf.segment_duration = 0');
$node->safe_psql('postgres', q(
	INSERT INTO leaf_alloc (biz_tag, step) VALUES ('t', 100), ('u', 100);
	SELECT leaf_segment_nextval('t'), leaf_segment_nextval('u');
));

foreach my $round (1 .. 4)
{
	my $worker = worker_pid($node, 'leaf refill');
	my $reserve = "SELECT leaf_segment_reserve('t', 5000)";
	my @calls;

	kill('STOP', $worker);
	push @calls, LeafTest::Call->new($node, $reserve, wait_timeout => '60s');
	$calls[0]->wait_until_waiting;
	$node->safe_psql('postgres', 'BEGIN; DROP EXTENSION leaf; ROLLBACK');
	LeafTest::pause() foreach 1 .. 6;
	push @calls, LeafTest::Call->new($node, $reserve, wait_timeout => '60s');
	$calls[1]->wait_until_waiting;

	# Either may be the first to look at what has come.
	my $late = $calls[ $round % 2 ]->pid;
	kill('STOP', $late);
	kill('CONT', $worker);
	LeafTest::pause() foreach 1 .. 6;
	kill('CONT', $late);
	$_->finish foreach @calls;

	my @blocks = map { $_->result =~ /^\[(\d+),(\d+)\)$/ ? [ $1, $2 ] : [ 0, 0 ] } @calls;
	@blocks = sort { $a->[0] <=> $b->[0] } @blocks;
	cmp_ok($blocks[0][0], '>', 0, "round $round: both calls have got a block")
	  or diag(map { $_->error } @calls);
	cmp_ok($blocks[0][1], '<=', $blocks[1][0], "round $round: the blocks do not overlap");
}

unlike(server_log_since($node), qr/PANIC|TRAP|was terminated by signal/,
	'no process of the server died');
$node->stop;
done_testing();
