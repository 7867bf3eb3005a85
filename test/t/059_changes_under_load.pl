# G1, G2, G3, G6: a committed change of a tag acts at once while sessions draw
# and the worker is in the middle of a refill, at whatever instant; so does a
# DROP EXTENSION that is followed by CREATE EXTENSION.  What was cached or
# reserved before the change never comes out after it.
#
# pg_regress can't reach it: it takes many sessions at once, and a worker that
# is held up in the middle of its work.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeafTest;
use LeafTest::Ids;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = leaf_ready_node('main', 'max_connections = 30',
	'leaf.segment_duration = 0', 'leaf.wait_timeout = 60s', 'log_min_messages = log');
$node->safe_psql('postgres', q(
	INSERT INTO leaf_alloc (biz_tag, step) VALUES
		('moved', 30), ('renewed', 30), ('dropped', 30), ('blocks', 30);
));

# Freezes the worker for a moment, at any point of its work.
sub freeze_worker
{
	my $pid = worker_pid($node, 'leaf refill') or return;

	kill('STOP', $pid);
	LeafTest::pause() foreach 1 .. 1 + rand 3;
	kill('CONT', $pid);
	return;
}

# The changes are recorded as if they were calls: each returns the id below the
# one that it makes the next, and a draw follows in the same session.  An id drawn from the old range after the change
# returned, or twice, is then a violation as any other.
my $moved = LeafTest::Ids->new;
my $draw = q(SELECT leaf_segment_nextval('%s'));

$moved->start($node, sprintf($draw, 'moved'), clients => 4);
$moved->start($node,
	"UPDATE leaf_alloc SET max_id = max_id + 1000 WHERE biz_tag = 'moved' RETURNING max_id - 1; "
	  . sprintf($draw, 'moved'));

my $renewed = LeafTest::Ids->new;
$renewed->start($node, sprintf($draw, 'renewed'), clients => 4);
$renewed->start(
	$node, q(
	WITH old AS (DELETE FROM leaf_alloc WHERE biz_tag = 'renewed' RETURNING max_id)
		SELECT max_id AS old_max_id FROM old \gset
	INSERT INTO leaf_alloc (biz_tag, max_id, step)
		VALUES ('renewed', :old_max_id + 1000, 30) RETURNING max_id - 1;
	) . sprintf($draw, 'renewed'));

my $blocks = LeafTest::Ids->new;
$blocks->start($node, sprintf($draw, 'blocks'), clients => 2);
$blocks->start($node,
	q(SELECT generate_series(lower(r), upper(r) - 1) FROM leaf_segment_reserve('blocks', 100) r)
);
$blocks->start($node,
	q(SELECT generate_series(lower(r), upper(r) - 1) FROM leaf_segment_reserve('blocks', 7) r)
);
# One that does not wait long enough: what it did not take is nobody's.
$blocks->start($node,
	q(SET leaf.wait_timeout = '1ms'; SELECT generate_series(lower(r), upper(r) - 1) FROM leaf_segment_reserve('blocks', 100) r)
);

foreach (1 .. 15)
{
	$_->wait_for_more(30) foreach $moved, $renewed, $blocks;
	freeze_worker();
}
$_->stop foreach $moved, $renewed, $blocks;
$moved->check_ok('UPDATE of max_id under load: ids are unique and ordered');
$renewed->check_ok('DELETE and INSERT under load: ids are unique and ordered');
$blocks->check_ok('single ids and blocks: unique and ordered');
is(join("\n", $moved->errors =~ /^.*ERROR:.*$/mg), '', 'UPDATE of max_id: no call failed');

# DROP and CREATE EXTENSION, in one transaction and in two.
my $dropped = LeafTest::Ids->new;
$dropped->start($node, sprintf($draw, 'dropped'), clients => 4);
foreach my $round (1 .. 6)
{
	my $next = $round * 1000000;
	my $separate = $round == 4 ? '; COMMIT; BEGIN' : '';

	$dropped->wait_for_more(50);
	$node->safe_psql('postgres', qq(
		BEGIN;
		DROP EXTENSION leaf$separate;
		CREATE EXTENSION leaf;
		INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('dropped', $next, 30);
		COMMIT;
	));
	# What a new session gets now, and what each session gets from now on.
	my $first = $node->safe_psql('postgres', sprintf($draw, 'dropped'));
	cmp_ok($first, '>=', $next, "extension re-created, round $round: none of the old ids");
}
$dropped->wait_for_more(50);
$dropped->stop;
$dropped->check_ok('extension re-created under load: ids are unique and ordered');

unlike(server_log_since($node), qr/PANIC|TRAP|was terminated by signal/,
	'no process of the server died');

$node->stop;
done_testing();
