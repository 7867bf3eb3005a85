# G1: a server restored from an older base backup and its archive, under its own
# name and with the clock set back, must not repeat the ids in its own data.
use strict;
use warnings FATAL => 'all';

use LeafTest;
use LeafTest::Clock;
use LeafTest::Host;
use LeafTest::Snowflake;
use PostgreSQL::Test::Cluster;
use Test::More;

my $clock = LeafTest::Clock->new;
my $host = LeafTest::Host->new;
$host->name('leaf-5');
foreach my $source ('static', 'hostname')
{
	my $node = PostgreSQL::Test::Cluster->new("old_$source");
	$node->init(has_archiving => 1, allows_streaming => 1);
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'leaf'\nleaf.worker_id_source = '$source'\nleaf.worker_id = 5\nleaf.node_address = 'a:1'\nleaf.time_bound_ahead = 100ms\nlog_statement=none\n");
	$clock->move(0);
	$clock->run(sub { $host->run(sub { $node->start }) });
	create_extension($node);
	$node->safe_psql('postgres', 'CREATE TABLE t (id bigint)');
	next_id($node);
	$node->backup('b');
	my $end = wall_ms() + 12000;
	while (wall_ms() < $end) { $node->safe_psql('postgres', 'INSERT INTO t SELECT leaf_snowflake_nextval() FROM generate_series(1, 100000)'); }
	$node->safe_psql('postgres', 'SELECT pg_switch_wal()');
	$node->stop;
	my $new = PostgreSQL::Test::Cluster->new("new_$source");
	$new->init_from_backup($node, 'b', has_restoring => 1, standby => 0);
	$clock->move(-8);
	$clock->run(sub { $host->run(sub { $new->start }) });
	wait_until('the end of recovery', sub { ($new->psql('postgres', 'SELECT pg_is_in_recovery()'))[1] eq 'f' });
	$new->psql('postgres', "SET leaf.wait_timeout = '3s'; CREATE TABLE n AS SELECT leaf_snowflake_nextval() AS id FROM generate_series(1, 300000)");
	my ($rc, $out) = $new->psql('postgres', 'SELECT count(*) FROM n JOIN t USING (id)');
	ok($rc != 0 || $out == 0, "$source: no id of its own data comes again");
	$new->stop;
}
done_testing();
