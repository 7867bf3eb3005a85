# G1: five databases of one server, each with a tag of the same name; the
# extension in different schemas; DROP and CREATE of the extension and of a
# database under the same name: nobody gets ids of another or of what is gone.
#
# Not for pg_regress: it takes several databases.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeafTest;
use LeafTest::Ids;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = leaf_node('main', 'max_worker_processes = 20', 'leaf.segment_duration = 0');
$node->start;

is(scalar(grep { /leaf refill/ } values %{ { server_processes($node) } }), 0, 'no worker before anybody asks');

my @databases = map { "d$_" } 1 .. 5;
my %schema = map { $_ => 'public' } @databases;
$schema{d2} = 'ids';
$schema{d3} = '"Odd schema; - "';
foreach my $i (1 .. 5)
{
	my $dbname = "d$i";

	$node->safe_psql('postgres', "CREATE DATABASE $dbname");
	$node->safe_psql($dbname, "CREATE SCHEMA $schema{$dbname}") unless $schema{$dbname} eq 'public';
	$node->safe_psql($dbname, "CREATE EXTENSION leaf SCHEMA $schema{$dbname}; INSERT INTO $schema{$dbname}.leaf_alloc (biz_tag, max_id, step) VALUES ('t', ${i}00000000, 20)");
}
is(scalar(grep { /leaf refill/ } values %{ { server_processes($node) } }), 0, 'nor after tags were added');

# All five at once.
my %ids;
foreach my $dbname (@databases)
{
	$ids{$dbname} = LeafTest::Ids->new;
	$ids{$dbname}->start($node, "SELECT $schema{$dbname}.leaf_segment_nextval('t') FROM generate_series(1, 30)",
		clients => 2, dbname => $dbname);
}
$_->wait_for_more(600) foreach values %ids;
foreach my $dbname (@databases)
{
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'leaf refill' AND datname = '$dbname'"),
		'1', "$dbname has one worker");
	is($node->safe_psql($dbname, "SELECT count(*) FROM $schema{$dbname}.leaf_segment_status"), '1', "$dbname sees its own tag only");
}
$_->stop foreach values %ids;
foreach my $i (1 .. 5)
{
	my @own = $ids{"d$i"}->ids;

	$ids{"d$i"}->check_ok("d$i: unique and rising");
	is(scalar(grep { $_ < "${i}00000000" || $_ >= "${i}00000000" + 10_000_000 } @own), 0, "d$i: all of its own range");
}
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'leaf refill' AND datname = 'postgres'"),
	'0', 'a database that nobody asks for ids has no worker');

# The extension, dropped and created again while a session has ids in hand, in
# the same schema and in another.
my $session = $node->background_psql('d1', on_error_stop => 0);
$session->query_safe("SELECT leaf_segment_nextval('t')");
$node->safe_psql('d1', "DROP EXTENSION leaf; CREATE EXTENSION leaf; INSERT INTO leaf_alloc (biz_tag, max_id) VALUES ('t', 500)");
is($session->query_safe("SELECT leaf_segment_nextval('t')"), '500', 'extension re-created: nothing of the old range');
$node->safe_psql('d1', "DROP EXTENSION leaf; CREATE SCHEMA ids; CREATE EXTENSION leaf SCHEMA ids; INSERT INTO ids.leaf_alloc (biz_tag, max_id) VALUES ('t', 700)");
is($session->query_safe("SELECT ids.leaf_segment_nextval('t')"), '700', '... in another schema');
$node->safe_psql('d1', 'DROP EXTENSION leaf; CREATE EXTENSION leaf SCHEMA ids');
$session->query("SELECT ids.leaf_segment_nextval('t')");
like($session->{stderr}, qr/ERROR.*"t"/, '... without the tag: it is unknown');
$session->{stderr} = '';
is($session->query_safe('SELECT count(*) FROM ids.leaf_segment_status'), '0', '... and takes no slot');
$session->quit;

# Dropping it in a transaction that is rolled back changes nothing.
is($node->safe_psql('d4', "SELECT leaf_segment_nextval('t') > 400000000"), 't', 'before');
$node->safe_psql('d4', 'BEGIN; DROP EXTENSION leaf; ROLLBACK');
is($node->safe_psql('d4', "SELECT leaf_segment_nextval('t') > 400000000"), 't', 'DROP EXTENSION rolled back');
# Creating it and using it in one transaction.
$node->safe_psql('postgres', <<'SQL');
BEGIN;
CREATE EXTENSION leaf;
INSERT INTO leaf_alloc (biz_tag) VALUES ('t');
CREATE TABLE made (id bigint PRIMARY KEY DEFAULT leaf_segment_nextval('t'));
INSERT INTO made SELECT FROM generate_series(1, 3000);
COMMIT;
INSERT INTO made SELECT FROM generate_series(1, 3000);
SQL
is($node->safe_psql('postgres', 'SELECT count(*), min(id) FROM made'), '6000|1', 'CREATE EXTENSION, tag, table and rows in one transaction');

# A database of the same name.
is($node->safe_psql('d5', "SELECT leaf_segment_nextval('t') > 500000000"), 't', 'd5 has ids in hand');
$node->safe_psql('postgres', 'DROP DATABASE d5');
$node->safe_psql('postgres', 'CREATE DATABASE d5');
$node->safe_psql('d5', "CREATE EXTENSION leaf; INSERT INTO leaf_alloc (biz_tag, max_id) VALUES ('t', 9)");
is($node->safe_psql('d5', "SELECT leaf_segment_nextval('t')"), '9', 'database re-created: nothing of the old range');

# A copy goes on by itself.
$node->safe_psql('postgres', 'CREATE DATABASE copy TEMPLATE d5');
is($node->safe_psql('copy', 'SELECT count(*) FROM leaf_segment_status'), '0', 'a copy of a database has nothing in hand');
is($node->safe_psql('copy', "SELECT leaf_segment_nextval('t') > 9"), 't', '... and reserves above what was reserved');
is($node->safe_psql('d5', "SELECT leaf_segment_nextval('t')"), '10', 'while its origin goes on');

# A table of the same name in another schema does not matter.
$node->safe_psql('d2', "CREATE TABLE public.leaf_alloc (LIKE ids.leaf_alloc INCLUDING ALL); INSERT INTO public.leaf_alloc (biz_tag) VALUES ('t')");
is($node->safe_psql('d2', "SELECT ids.leaf_segment_nextval('t') > 200000000"), 't', 'a table of the same name elsewhere');

done_testing();
