# G1, G3, G5: with more tags in use than leaf.max_tags has room for, slots change
# hands all the time under the feet of other sessions; no id comes twice, none
# comes late, and no tag ever gives the id of another.
#
# pg_regress can't reach it: it takes many sessions at once, and a crash.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeafTest;
use LeafTest::Ids;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $TAGS = 12;
my $node = leaf_ready_node('main', 'leaf.max_tags = 8', 'max_connections = 50',
	'log_min_messages = log');

# Each tag has a range of its own, so that an id tells whose it is.
$node->safe_psql('postgres', qq(
	INSERT INTO leaf_alloc (biz_tag, max_id, step)
		SELECT 'tag ' || n, n * 1000000000::bigint, 10
		FROM generate_series(1, $TAGS) n
));

my %ids = map { $_ => LeafTest::Ids->new } 1 .. $TAGS;

sub start_clients
{
	foreach my $n (sort { $a <=> $b } keys %ids)
	{
		$ids{$n}->start($node, "SELECT leaf_segment_nextval('tag $n')");
		# more than a segment, so that a slot is held on to for a while
		$ids{$n}->start($node,
			"SELECT generate_series(lower(r), upper(r) - 1) FROM leaf_segment_reserve('tag $n', 50) r"
		);
	}
	return;
}

start_clients();
$ids{$_}->wait_for_more(300) foreach keys %ids;
crash_backend($node) or die 'there was no backend to kill';
$ids{$_}->wait_for_more(300) foreach keys %ids;
$ids{$_}->stop foreach keys %ids;

foreach my $n (sort { $a <=> $b } keys %ids)
{
	$ids{$n}->check_ok("tag $n: ids are unique and ordered");

	my $low = $n * 1000000000;
	my @strays = grep { $_ < $low || $_ >= $low + 1000000000 } $ids{$n}->ids;
	is(scalar(@strays), 0, "tag $n: all ids are its own");
}

# A call that can't have a slot says so; no other error is met.
my %errors;
foreach my $n (keys %ids)
{
	$errors{$_} = 1 foreach $ids{$n}->errors =~ /^.*ERROR:.*$/mg;
}
is(join("\n", grep { !/no free tag slot/ } sort keys %errors),
	'', 'no call failed but for want of a slot');
unlike(server_log_since($node), qr/PANIC|TRAP/, 'no assertion failed');

cmp_ok(
	$node->safe_psql('postgres', 'SELECT count(*) FROM leaf_segment_status'),
	'<=', 8, 'no more than leaf.max_tags are cached');

$node->stop;
done_testing();
