# G1: a node that ran under another worker id and address for a while, and
# comes back to its own with the clock set back: its bound was overwritten.
use strict;
use warnings FATAL => 'all';

use LeafTest;
use LeafTest::Clock;
use LeafTest::Snowflake;
use Test::More;

my $clock = LeafTest::Clock->new;
my $node = leaf_node('main', snowflake_conf(5, "leaf.node_address = 'a:1'"));
sub start { $clock->run(sub { $node->start }); return; }
my %seen;
sub draw { return map { $seen{$_}++ ? $_ : () } split /\n/, $node->safe_psql('postgres', 'SELECT leaf_snowflake_nextval() FROM generate_series(1, 100000)'); }

start();
create_extension($node);
my $end = wall_ms() + 8000;
while (wall_ms() < $end) { draw(); }
$node->stop;
$node->append_conf('postgresql.conf', "leaf.worker_id = 7\nleaf.node_address = 'b:1'");
$clock->move(-8);
start();
draw();
$node->stop;
$node->append_conf('postgresql.conf', "leaf.worker_id = 5\nleaf.node_address = 'a:1'");
start();
is(scalar(my @again = draw()), 0, 'no id comes twice');
$node->stop;
done_testing();
