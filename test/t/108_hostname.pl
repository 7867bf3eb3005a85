# G10: worker ids from the host's name: which names have one, and what a node
# says whose name has none.
# pg_regress has one host.
use strict;
use warnings FATAL => 'all';

use LeafTest;
use LeafTest::Host;
use LeafTest::Snowflake;
use LeafTest::Unit;
use PostgreSQL::Test::Utils;
use Test::More;

# The rule itself, as the C function that the server uses.
my %expected = (
	'leaf-0' => 0,
	'leaf-1' => 1,
	'leaf-9' => 9,
	'leaf-10' => 10,
	'leaf-1022' => 1022,
	'leaf-1023' => 1023,
	'leaf-1024' => 'worker_id_out_of_range',
	'leaf-9999' => 'worker_id_out_of_range',
	'leaf-4294967296' => 'worker_id_out_of_range',
	'leaf-18446744073709551617' => 'worker_id_out_of_range',
	'leaf-3.leaf.default.svc.cluster.local' => 3,
	'leaf-3.' => 3,
	'leaf-3.other-5' => 3,
	'my-leaf-set-12' => 12,
	'l-7' => 7,
	'leaf--7' => 7,
	'2024-leaf-7' => 7,
	'10-20-30-40' => 40,
	'leaf-00' => 'bad_hostname',
	'leaf-007' => 'bad_hostname',
	'leaf-01024' => 'bad_hostname',
	'leaf' => 'bad_hostname',
	'leaf3' => 'bad_hostname',
	'leaf-' => 'bad_hostname',
	'leaf-a' => 'bad_hostname',
	'leaf-3a' => 'bad_hostname',
	'leaf-+3' => 'bad_hostname',
	'leaf- 3' => 'bad_hostname',
	'leaf.svc-3' => 'bad_hostname',
	'-3' => 'bad_hostname',
	'3' => 'bad_hostname',
	'-' => 'bad_hostname',
	'' => 'bad_hostname',
	'.leaf-3' => 'bad_hostname',
	'localhost' => 'bad_hostname',
	('x' x 1000) . '-5' => 5,
	('leaf-' . '9' x 1000) => 'worker_id_out_of_range',
	'leaf-' . '0' x 1000 => 'bad_hostname',
	"bl\xc3\xa4tter-6" => 6);

my $program = build_unit('hostname', 'snowflake/hostname.c');
my @names = sort keys %expected;
my ($out) = run_command([ $program, @names ]);
my @answers = split(/\n/, $out);
is($answers[$_], $expected{ $names[$_] }, 'host name "' . substr($names[$_], 0, 40) . '"')
  foreach 0 .. $#names;

# The server: from good to bad and back, while it runs.
my $host = LeafTest::Host->new;
my $node = leaf_node('main', "leaf.worker_id_source = 'hostname'");
$host->name('leaf-5.leaf.default.svc.cluster.local');
$host->run(sub { $node->start });
create_extension($node);
is(status($node, 'state, worker_id, worker_id_source'), 'running|5|hostname', 'the server has its ordinal');
my $last = next_id($node);
is($node->safe_psql('postgres', "SELECT worker_id FROM leaf_snowflake_parse($last)"), 5, 'and its ids have it');

foreach my $bad ([ 'database', 'bad_hostname' ], [ 'leaf-1024', 'worker_id_out_of_range' ],
	[ 'leaf-' . '9' x 1500, 'worker_id_out_of_range' ])
{
	my ($name, $reason) = @$bad;

	$node->stop;
	$host->name($name);
	$host->run(sub { $node->start });
	wait_for_state($node, 'refused', $reason);
	fails_with($node, 'SELECT leaf_snowflake_nextval()', '55000',
		qr/refused: $reason.*DETAIL:.*host name "\Q@{[substr($name, 0, 20)]}\E.*HINT:/s, "$reason: refused");
	like(alarms($node), qr/^snowflake: refused: $reason/m, 'with an alarm');
	is($node->safe_psql('postgres', 'SELECT 1'), 1, 'the database is up');
	$host->name('leaf-4');
	wait_for_state($node, 'running');
	cmp_ok(next_id($node), '>', $last, 'a host that is renamed is served by itself');
	$last = next_id($node);
}

done_testing();
