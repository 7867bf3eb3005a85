# G1, G3: a data directory that is put back in its place to an earlier state of
# the same run (a snapshot of its file system), after a crash and with the
# clock set back: the last id that memory has kept is known to be issued.
# pg_regress can't crash the server.
use strict;
use warnings FATAL => 'all';

use File::Copy;
use LeafTest;
use LeafTest::Clock;
use LeafTest::Snowflake;
use PostgreSQL::Test::Utils;
use Test::More;

my $clock = LeafTest::Clock->new;
my $node = leaf_node('main', snowflake_conf(10, 'leaf.time_bound_ahead = 100ms'));
my $saved = PostgreSQL::Test::Utils::tempdir() . '/saved';

$clock->run(sub { $node->start });
create_extension($node);
next_id($node);
copy(state_file($node), $saved) or die "could not copy: $!";
my $end = wall_ms() + 8000;
my $last;
$last = next_id($node) while wall_ms() < $end;
crash_postmaster($node);
copy($saved, state_file($node)) or die "could not copy: $!";
$clock->move(-6);
$clock->run(sub { $node->start });
my ($rc, $id);
wait_until('an id', sub { ($rc, $id) = $node->psql('postgres', 'SELECT leaf_snowflake_nextval()'); $rc == 0 });
cmp_ok($id, '>', $last, 'ids go on above those of before');
$node->stop;
done_testing();
