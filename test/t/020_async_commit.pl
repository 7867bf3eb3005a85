# G1, G2: a change of leaf_alloc is on disk when its commit returns, also with
# synchronous_commit = off: ids were given out by it, or will be, and a crash
# must not bring them back.
#
# Not for pg_regress: it crashes the server.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeafTest;
use Test::More;

my $node = leaf_ready_node('main', 'synchronous_commit = off', 'wal_writer_delay = 10s');

$node->safe_psql('postgres', "INSERT INTO leaf_alloc (biz_tag) VALUES ('raised')");
$node->safe_psql('postgres', 'CHECKPOINT');

my $drawn = $node->safe_psql('postgres', <<'SQL');
BEGIN;
INSERT INTO leaf_alloc (biz_tag) VALUES ('own');
SELECT leaf_segment_nextval('own') FROM generate_series(1, 3);
COMMIT;
SQL
crash_postmaster($node);
is($drawn, "1\n2\n3", 'ids of a tag drawn by the transaction that creates it');
$node->start;
is($node->safe_psql('postgres', "SELECT leaf_segment_nextval('own')"),
	'4', 'after a crash right behind its commit, the tag goes on above them');

$node->safe_psql('postgres', "UPDATE leaf_alloc SET max_id = 5000 WHERE biz_tag = 'raised'");
crash_postmaster($node);
$node->start;
is($node->safe_psql('postgres', "SELECT leaf_segment_nextval('raised')"),
	'5000', 'a max_id raised right before a crash holds');

done_testing();
