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

# Creating the extension may be refused, or work; both are clear answers. Where
# it works (a restore does that), all its functions must say what is missing.
$node->safe_psql('postgres', 'CREATE EXTENSION leaf');
$node->safe_psql('postgres', "INSERT INTO leaf_alloc (biz_tag) VALUES ('orders')");

foreach my $sql (
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
is($node->safe_psql('postgres', "SELECT max_id FROM leaf_alloc WHERE biz_tag = 'orders'"),
	1, 'not preloaded: nothing was reserved');

# Ordinary work on the table goes on, so that a dump can be restored before the
# line is added.
$node->safe_psql('postgres', q(
	UPDATE leaf_alloc SET max_id = 500 WHERE biz_tag = 'orders';
	INSERT INTO leaf_alloc (biz_tag) VALUES ('gone');
	DELETE FROM leaf_alloc WHERE biz_tag = 'gone';
));

$node->append_conf('postgresql.conf', "shared_preload_libraries = 'leaf'");
$node->restart;
is($node->safe_psql('postgres', "SELECT leaf_segment_nextval('orders')"),
	500, 'with the line added, the same tag works');

$node->stop;
done_testing();
