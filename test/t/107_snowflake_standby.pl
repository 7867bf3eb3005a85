# G1, G6: standbys. With a static worker id, its primary's, a standby refuses
# until it is promoted, and then starts above what its data shows of the old
# primary's clock. With a worker id of its own, from its host's name, it serves.
# pg_regress has one server.
use strict;
use warnings FATAL => 'all';

use LeafTest;
use LeafTest::Clock;
use LeafTest::Host;
use LeafTest::Ids;
use LeafTest::Snowflake;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# The primary's clock is 20 s ahead of the standby's.
my $ahead = LeafTest::Clock->new;
$ahead->move(20);
my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf',
	join("\n", "shared_preload_libraries = 'leaf'", snowflake_conf(30), ''));
$ahead->run(sub { $primary->start });
create_extension($primary);
$primary->safe_psql('postgres', 'CREATE TABLE t (id bigint PRIMARY KEY DEFAULT leaf_snowflake_nextval())');

$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
my $clock = LeafTest::Clock->new;
$clock->run(sub { $standby->start });

my $last;
$last = $primary->safe_psql('postgres', 'INSERT INTO t DEFAULT VALUES RETURNING id') foreach 1 .. 3;
$primary->wait_for_catchup($standby);

wait_for_state($standby, 'refused', 'in_recovery');
fails_with($standby, 'SELECT leaf_snowflake_nextval()', '55000',
	qr/refused: in_recovery.*DETAIL:.*standby.*HINT:.*primary/s, 'a standby with its primary\'s id refuses');
is(alarms($standby), '', 'which is no alarm: nothing is wrong');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM t'), 3, 'it replays');

# Promoted: its clock is behind what it has replayed.
$primary->stop('immediate');
$standby->promote;
wait_for_state($standby, 'refused', 'clock_behind');
ok(1, 'promoted: not below the ids of the old primary');
$clock->move(22);
wait_for_state($standby, 'running');
my $first = $standby->safe_psql('postgres', 'INSERT INTO t DEFAULT VALUES RETURNING id');
cmp_ok($first, '>', $last, 'but above all that it has replayed');
is($standby->safe_psql('postgres', 'SELECT worker_id FROM leaf_snowflake_parse(' . $first . ')'),
	30, 'with the worker id of the primary');
$standby->stop;

# With clocks that agree, calls wait over the promotion instead of failing.
$clock->run(sub { $standby->start });
$standby->backup('again');
my $second = PostgreSQL::Test::Cluster->new('second');
$second->init_from_backup($standby, 'again', has_streaming => 1);
$clock->run(sub { $second->start });
wait_for_state($second, 'refused', 'in_recovery');
$last = $standby->safe_psql('postgres', 'INSERT INTO t DEFAULT VALUES RETURNING id');
$standby->wait_for_catchup($second);
$standby->stop('immediate');
$second->promote;
cmp_ok(next_id($second), '>', $last, 'the first call after a promotion gets its id');
is(alarms($second), '', 'without an alarm');
$second->stop;

# Worker ids of their own.
my $zero = LeafTest::Host->new;
my $one = LeafTest::Host->new;
$zero->name('leaf-0');
$one->name('leaf-1');
my $pod = PostgreSQL::Test::Cluster->new('pod0');
$pod->init(allows_streaming => 1);
$pod->append_conf('postgresql.conf',
	"shared_preload_libraries = 'leaf'\nleaf.worker_id_source = 'hostname'\n");
$zero->run(sub { $pod->start });
create_extension($pod);
next_id($pod);
$pod->backup('pod');
my $replica = PostgreSQL::Test::Cluster->new('pod1');
$replica->init_from_backup($pod, 'pod', has_streaming => 1);
$one->run(sub { $replica->start });

wait_for_state($replica, 'running');
is($replica->safe_psql('postgres', 'SELECT pg_is_in_recovery()'), 't', 'a standby with its own id');
is(status($pod, 'worker_id'), 0, 'the primary has the ordinal of its host');
is(status($replica, 'worker_id'), 1, 'the standby has its own');

my $ids = LeafTest::Ids->new;
$ids->start($pod, 'SELECT leaf_snowflake_nextval()');
$ids->start($replica, 'SELECT leaf_snowflake_nextval()');
$ids->wait_for_more(500);
$replica->promote;
$ids->wait_for_more(500);
$ids->stop;
$ids->check_ok('ids of primary and standby are unique, over a promotion', unordered => 1);
is($ids->errors, '', 'and none was refused');

done_testing();
