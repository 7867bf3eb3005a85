# G1, G6: a standby hands out no ids, and after its promotion goes on above
# everything that the lost primary handed out.
#
# pg_regress can't reach it: it takes two servers, a crash and a promotion.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeafTest;
use LeafTest::Ids;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', q(
	shared_preload_libraries = 'leaf'
	log_statement = none
	max_connections = 30
));
$primary->start;
create_extension($primary);
$primary->safe_psql('postgres', q(
	INSERT INTO leaf_alloc (biz_tag, step) VALUES ('orders', 100), ('never', 100);
	CREATE TABLE orders (
		id bigint PRIMARY KEY DEFAULT leaf_segment_nextval('orders'));
));
$primary->backup('base');

my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;

my $ids = LeafTest::Ids->new;
my $insert = 'INSERT INTO orders DEFAULT VALUES RETURNING id';
$ids->start($primary, $insert, clients => 3);
$ids->wait_for_more(1000);
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));

# While it is a standby
sub sqlstate_of
{
	my ($node, $sql) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql");

	return $err =~ /ERROR:\s+(\w{5}):/ ? $1 : "no error, but \"$out\"";
}

foreach my $call (
	"SELECT leaf_segment_nextval('orders')",
	"SELECT leaf_segment_reserve('orders', 10)",
	"SELECT leaf_segment_nextval('no such tag')")
{
	is(sqlstate_of($standby, $call), '25006', "standby: $call");
}
is($standby->safe_psql('postgres', 'SELECT count(*) FROM leaf_segment_status'),
	0, 'standby: the status view can be read, and is empty');
ok(!defined worker_pid($standby, 'leaf refill'), 'standby: no refill worker');

# A standby that has been asked, and refused, knows nothing that could be stale
# after the promotion. The primary goes on for a while, then is lost.
$ids->wait_for_more(1000);
crash_postmaster($primary);
$ids->stop;
$standby->promote;

my ($highest) = sort { $b <=> $a } $ids->ids;
my $first = $standby->safe_psql('postgres', "SELECT leaf_segment_nextval('orders')");

# Asynchronous replication may lose the last reservations; what the standby had
# replayed must hold.
my $replayed = $standby->safe_psql('postgres', 'SELECT max(id) FROM orders');
cmp_ok($first, '>', $replayed, 'promoted: first id is above all rows that arrived');

my $after = LeafTest::Ids->new;
$after->start($standby, $insert, clients => 3);
$after->wait_for_more(1000);
$after->stop;
$after->check_ok('promoted: ids are unique and ordered');
is($standby->safe_psql('postgres', "SELECT leaf_segment_nextval('never')"),
	1, 'promoted: a tag never used before begins at its first id');
is( $standby->safe_psql('postgres',
		'SELECT count(*) - count(DISTINCT id) FROM orders'),
	0, 'promoted: no row has the id of another');
note "highest id of the primary $highest, replayed $replayed, first id after promotion $first";

$standby->stop;
done_testing();
