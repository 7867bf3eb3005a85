# G1, G9: changes of leaf_alloc that arrive by logical replication act at once,
# as those of a session do. The apply worker runs as a replica, where ordinary
# triggers stay silent.
#
# pg_regress can't reach it: it takes two servers.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeafTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $publisher = PostgreSQL::Test::Cluster->new('publisher');
$publisher->init(allows_streaming => 'logical');
$publisher->append_conf('postgresql.conf',
	"shared_preload_libraries = 'leaf'\nlog_statement = none");
$publisher->start;
create_extension($publisher);

my $subscriber = leaf_ready_node('subscriber');
my $connstr = $publisher->connstr . ' dbname=postgres';

$publisher->safe_psql('postgres', q(
	INSERT INTO leaf_alloc (biz_tag, max_id) VALUES ('copied', 100);
	CREATE PUBLICATION tags FOR TABLE leaf_alloc;
));
$subscriber->safe_psql('postgres',
	"CREATE SUBSCRIPTION tags CONNECTION '$connstr' PUBLICATION tags");
$subscriber->wait_for_subscription_sync($publisher, 'tags');

# Waits until the subscriber has applied what the publisher committed so far.
sub publish
{
	my ($sql) = @_;

	$publisher->safe_psql('postgres', $sql);
	$publisher->wait_for_catchup('tags');
	return;
}

sub draw
{
	my ($tag) = @_;

	return $subscriber->safe_psql('postgres', "SELECT leaf_segment_nextval('$tag')");
}

is(draw('copied'), 100, 'a tag of the initial copy');
is(draw('copied'), 101, 'goes on counting');

publish("INSERT INTO leaf_alloc (biz_tag, max_id) VALUES ('arrived', 5)");
is(draw('arrived'), 5, 'INSERT arrives: the tag works');

publish("UPDATE leaf_alloc SET max_id = 50000 WHERE biz_tag = 'copied'");
is(draw('copied'), 50000, 'UPDATE arrives: the cached range is dropped');

publish("DELETE FROM leaf_alloc WHERE biz_tag = 'arrived'");
my ($rc, $out, $err) = $subscriber->psql('postgres',
	"\\set VERBOSITY verbose\nSELECT leaf_segment_nextval('arrived')");
like($err, qr/ERROR:\s+42704:/, 'DELETE arrives: the tag is unknown');

publish("INSERT INTO leaf_alloc (biz_tag, max_id) VALUES ('arrived', 900)");
is(draw('arrived'), 900, 'INSERT again: the new row holds');

publish('TRUNCATE leaf_alloc');
($rc, $out, $err) = $subscriber->psql('postgres',
	"\\set VERBOSITY verbose\nSELECT leaf_segment_nextval('copied')");
like($err, qr/ERROR:\s+42704:/, 'TRUNCATE arrives: the tags are unknown');

publish("INSERT INTO leaf_alloc (biz_tag, max_id) VALUES ('copied', 60000)");
is(draw('copied'), 60000, 'and work again once inserted');

$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION tags');
$subscriber->stop;
$publisher->stop;
done_testing();
