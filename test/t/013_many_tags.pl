# G1, G3, G10: leaf.max_tags tags in use and more: idle ones make room, and no
# id is lost or repeated by that; where none is idle, the error names the
# setting. 100,000 tags, with leaf.max_tags raised.
#
# Not for pg_regress: leaf.max_tags is set at server start.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeafTest;
use LeafTest::Call;
use LeafTest::Ids;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = leaf_ready_node('main', 'leaf.max_tags = 10', 'leaf.segment_duration = 0');

$node->safe_psql('postgres', "INSERT INTO leaf_alloc (biz_tag, step) SELECT 't' || g, 100 FROM generate_series(1, 40) AS g");

# Exactly as many as there is room for.
is( $node->safe_psql('postgres', "SELECT sum(leaf_segment_nextval('t' || g)) FROM generate_series(1, 10) AS g"),
	'10', 'leaf.max_tags tags are in use');
is($node->safe_psql('postgres', 'SELECT count(*) FROM leaf_segment_status'), '10', 'all are cached');

# Unknown tags take no room, however many are asked for.
foreach my $i (1 .. 30)
{
	my ($rc, $out, $err) = $node->psql('postgres', "SELECT leaf_segment_nextval('unknown $i')", extra_params => ['-v', 'VERBOSITY=verbose']);
	next if $err =~ /42704/;
	fail("unknown tag $i: $err");
	last;
}
is($node->safe_psql('postgres', 'SELECT count(*) FROM leaf_segment_status'), '10', 'unknown tags take no slot');
is( $node->safe_psql('postgres', "SELECT min(leaf_segment_nextval('t' || g)), max(leaf_segment_nextval('t' || g)) FROM generate_series(1, 10) AS g"),
	'2|3', 'and put nobody out');

# One more: an idle one makes room.
is($node->safe_psql('postgres', "SELECT leaf_segment_nextval('t11')"), '1', 'one tag more than leaf.max_tags');
is($node->safe_psql('postgres', 'SELECT count(*) FROM leaf_segment_status'), '10', 'one of the others made room');

# Round and round over four times as many: ids only rise, as written down
# outside the server.
my $ids = LeafTest::Ids->new;
my @all = map { LeafTest::Ids->new } 1 .. 40;
foreach my $round (1 .. 3)
{
	my $out = $node->safe_psql('postgres', "SELECT 't' || g, leaf_segment_nextval('t' || g) FROM generate_series(1, 40) AS g");
	our %highest;

	foreach my $line (split /\n/, $out)
	{
		my ($tag, $id) = split /\|/, $line;

		fail("round $round: $tag gave $id after $highest{$tag}")
		  if defined $highest{$tag} && $id <= $highest{$tag};
		$highest{$tag} = $id;
	}
	is(scalar keys %highest, 40, "round $round over all tags");
}

# Several sessions at once on many tags: none fails, none repeats.
$_->start($node, "SELECT leaf_segment_nextval('t7')") foreach $all[7];
$all[8]->start($node, "SELECT leaf_segment_nextval('t8')", clients => 2);
foreach my $round (1 .. 20)
{
	$node->psql('postgres', "SELECT leaf_segment_nextval('t' || g) FROM generate_series(10, 40) AS g");
}
$_->wait_for_more(50) foreach @all[ 7, 8 ];
$_->stop foreach @all[ 7, 8 ];
$all[7]->check_ok('t7, while others come and go');
$all[8]->check_ok('t8, while others come and go');

# As many in use at the same time as there is room for, by sessions that wait for
# them: the next is refused, and told what to raise.
my $holder = $node->background_psql('postgres');
$holder->query_safe('BEGIN');
$holder->query_safe('SELECT count(*) FROM (SELECT 1 FROM leaf_alloc FOR UPDATE) AS s');
my @waiting = map {
	LeafTest::Call->new($node,
		"SELECT leaf_segment_nextval('t$_') FROM generate_series(1, 1000)",
		wait_timeout => '5min')
} 1 .. 10;
$_->wait_until_waiting foreach @waiting;
my $call = LeafTest::Call->run($node, "SELECT leaf_segment_nextval('t11') FROM generate_series(1, 1000)", wait_timeout => '1s');
is($call->sqlstate, '53400', 'no room at all: an error') or diag($call->error);
like($call->error, qr/^HINT: .*leaf\.max_tags/m, 'its HINT names the setting');
$holder->query_safe('COMMIT');
$holder->quit;
foreach my $waiting (@waiting)
{
	$waiting->finish;
	is(scalar(split /\n/, $waiting->result), 1000, 'one of those who waited') or diag($waiting->error);
}
$call = LeafTest::Call->run($node, "SELECT count(*), count(DISTINCT id) FROM (SELECT leaf_segment_nextval('t11') AS id FROM generate_series(1, 1000)) AS s");
is($call->result, '1000|1000', 'and the one who was refused');

# 100,000 tags.
my $tags = 100_000;
$node->append_conf('postgresql.conf', "leaf.max_tags = $tags");
$node->restart;
$node->safe_psql('postgres', "TRUNCATE leaf_alloc; INSERT INTO leaf_alloc (biz_tag) SELECT 'tag ' || g FROM generate_series(1, $tags) AS g");
my $clients = 8;
my @parts = map {
	LeafTest::Call->new($node,
		"SELECT sum(leaf_segment_nextval('tag ' || g)) FROM generate_series($_, $tags, $clients) AS g")
} 1 .. $clients;
my ($sum, $seconds) = (0, 0);
foreach my $part (@parts)
{
	my $took = $part->finish;
	$seconds = $took if $took > $seconds;
	diag($part->error) if $part->error;
	$sum += $part->result || 0;
}
is($sum, $tags, "first id of $tags tags");
note sprintf('%d first ids in %.1f s', $tags, $seconds);
is($node->safe_psql('postgres', 'SELECT count(*) FROM leaf_segment_status'), $tags, 'all are cached at once');
is($node->safe_psql('postgres', "SELECT sum(leaf_segment_nextval('tag ' || g)) FROM generate_series(1, $tags) AS g"),
	2 * $tags, 'second id of each');
is($node->safe_psql('postgres', "SELECT count(*), count(DISTINCT biz_tag), min(next_id), max(next_id) FROM leaf_segment_status"),
	"$tags|$tags|3|3", 'each has its own row');
$node->safe_psql('postgres', 'TRUNCATE leaf_alloc');
is($node->safe_psql('postgres', 'SELECT count(*) FROM leaf_segment_status'), '0', 'all are gone at once');

done_testing();
