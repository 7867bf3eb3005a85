# G4: a request that comes while the refill worker waits for a standby is served
# as soon as that wait ends.
#
# pg_regress can't reach it: it takes a synchronous standby that is not there.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeafTest;
use LeafTest::Call;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = leaf_ready_node('main', 'wal_level = replica', 'max_wal_senders = 1');
$node->safe_psql('postgres', q(
	INSERT INTO leaf_alloc (biz_tag) VALUES ('warm'), ('first'), ('second');
	SELECT leaf_segment_nextval('warm');
	ALTER SYSTEM SET synchronous_standby_names = 'nobody';
));
$node->reload;
wait_until('the setting', sub {
	$node->safe_psql('postgres', 'SHOW synchronous_standby_names') eq 'nobody' });

my @calls;
foreach my $tag ('first', 'second')
{
	push @calls, LeafTest::Call->new($node, "SELECT leaf_segment_nextval('$tag')", wait_timeout => '60s');
	$calls[-1]->wait_until_waiting;
	LeafTest::pause() foreach 1 .. 4;
}
my $since = LeafTest::Call::mark();
$node->safe_psql('postgres', 'ALTER SYSTEM RESET synchronous_standby_names');
$node->reload;
foreach my $call (@calls)
{
	cmp_ok($call->finish($since), '<', 10, 'served once the wait has ended');
	is($call->result, '1', 'with an id');
}

$node->stop;
done_testing();
