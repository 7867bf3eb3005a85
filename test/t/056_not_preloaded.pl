# G10: without the line in shared_preload_libraries everything that needs it says
# so and names the line; nothing crashes, and nothing is handed out.
#
# pg_regress can't reach it: its server has the library preloaded.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeafTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', 'log_statement = none');
$node->start;

# Creating the extension works, so that a schema can be restored; what needs the
# server's memory says what is missing.  That goes for a change of a tag as well.
$node->safe_psql('postgres', 'CREATE EXTENSION leaf');

foreach my $sql (
	"INSERT INTO leaf_alloc (biz_tag) VALUES ('orders')",
	"SELECT leaf_segment_nextval('orders')",
	"SELECT leaf_segment_reserve('orders', 5)",
	'SELECT * FROM leaf_segment_status',
	'SELECT * FROM leaf_alarms')
{
	# A session of its own each time: the library is loaded by the call.
	my ($rc, $out, $err) =
	  $node->psql('postgres', "\\set VERBOSITY verbose\n$sql");

	isnt($rc, 0, "not preloaded: $sql fails");
	like($err, qr/ERROR:\s+55000:/, "with SQLSTATE 55000");
	like($err, qr/HINT:.*shared_preload_libraries = 'leaf'/,
		'and the line to add');
}
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'leaf'");
$node->restart;
is( $node->safe_psql('postgres', q(
		INSERT INTO leaf_alloc (biz_tag) VALUES ('orders');
		SELECT leaf_segment_nextval('orders');
	)),
	1,
	'with the line added, the same database works');

$node->stop;
done_testing();
