# G1, G6: pg_upgrade works on a cluster that uses leaf, ids go on above, and no
# worker runs in the mode that pg_upgrade starts the servers in.
#
# pg_regress can't reach it: it takes two clusters, and postgres -b.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeafTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my @conf = (
	"leaf.worker_id_source = 'static'", 'leaf.worker_id = 7',
	'max_connections = 20');
my $old = leaf_ready_node('old', @conf);

$old->safe_psql('postgres', q(
	INSERT INTO leaf_alloc (biz_tag) VALUES ('orders');
	CREATE TABLE orders (
		id bigint PRIMARY KEY DEFAULT leaf_segment_nextval('orders'));
	INSERT INTO orders SELECT FROM generate_series(1, 2500);
));

# What the check below looks for is there when the server runs as usual.
my %title = server_processes($old);
ok((grep { /leaf refill/ } values %title),
	'normal start: the refill worker is among the processes');
my $highest = $old->safe_psql('postgres', 'SELECT max(id) FROM orders');
$old->stop;

# The mode itself, looked at from outside while it lasts.
command_ok(
	[
		'pg_ctl', '-w', '-D', $old->data_dir, '-l', $old->logfile, '-o', '-b',
		'start'
	],
	'start in binary-upgrade mode');
%title = server_processes($old);
cmp_ok(scalar(keys %title), '>', 2, 'its processes can be seen');
is(join(', ', grep { /leaf/ } values %title), '', 'binary upgrade: no worker at the start');

my ($rc, $out, $err) = $old->psql('postgres',
	"\\set VERBOSITY verbose\nSET leaf.wait_timeout = '1s'; SELECT leaf_segment_nextval('orders')");
%title = server_processes($old);
is(join(', ', grep { /leaf/ } values %title), '', 'binary upgrade: none after a call either');
isnt($rc, 0, 'binary upgrade: a call is refused');
like($err, qr/ERROR:\s+(55000|53000):.*HINT:/s, 'binary upgrade: with a clear error');
command_ok([ 'pg_ctl', '-w', '-D', $old->data_dir, 'stop' ], 'stop');

# The real thing
my $new = leaf_node('new', @conf);
my $bin = $new->config_data('--bindir');
my $dir = PostgreSQL::Test::Utils::tempdir();

chdir($dir) or die "could not change to \"$dir\": $!";
command_ok(
	[
		'pg_upgrade', '-b', $bin, '-B', $bin, '-d', $old->data_dir, '-D',
		$new->data_dir, '-p', $old->port, '-P', $new->port, '-s', $new->host
	],
	'pg_upgrade');
$new->start;
is($new->safe_psql('postgres', 'SELECT max(id) FROM orders'),
	$highest, 'upgraded: the rows are there');
cmp_ok($new->safe_psql('postgres', 'INSERT INTO orders DEFAULT VALUES RETURNING id'),
	'>', $highest, 'upgraded: ids go on above');
$new->stop;
done_testing();
