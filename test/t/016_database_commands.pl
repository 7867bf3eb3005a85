# G6: DROP DATABASE, ALTER DATABASE RENAME and SET TABLESPACE and CREATE
# DATABASE ... TEMPLATE are not held up by the refill worker of that database,
# from a database with the extension or without; and when such a command fails,
# refills go on.
#
# Not for pg_regress: it takes several databases and the time of commands.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeafTest;
use LeafTest::Call;
use LeafTest::Ids;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = leaf_node('main', 'max_worker_processes = 20', 'leaf.segment_duration = 0');
$node->start;

my $directory = PostgreSQL::Test::Utils::tempdir_short();
$node->safe_psql('postgres', "CREATE TABLESPACE elsewhere LOCATION '$directory'");
$node->safe_psql('postgres', 'CREATE DATABASE with_extension');
create_extension($node, 'with_extension');

my %highest;

# A database whose worker is there.
sub used_database
{
	my ($dbname) = @_;

	$node->safe_psql('postgres', "CREATE DATABASE $dbname");
	create_extension($node, $dbname);
	$node->safe_psql($dbname, "INSERT INTO leaf_alloc (biz_tag, step) VALUES ('t', 20)");
	delete $highest{$dbname};
	use_ok_again($dbname, "$dbname is in use");
	return;
}

sub use_ok_again
{
	my ($dbname, $name, $was) = @_;
	my $out = $node->safe_psql($dbname, "SELECT count(DISTINCT id), min(id), max(id) FROM (SELECT leaf_segment_nextval('t') AS id FROM generate_series(1, 100)) AS s");
	my ($count, $min, $max) = split /\|/, $out;

	$highest{$dbname} = $highest{ $was // $dbname } // 0;
	ok($count == 100 && $min > $highest{$dbname}, $name) or diag("$out, after $highest{$dbname}");
	$highest{$dbname} = $max;
	ok(defined worker_pid($node, 'leaf refill', $dbname), '... with a worker');
	return;
}

# How long a command takes of a database that nobody uses.
sub seconds_unhindered
{
	my $seconds =
	  LeafTest::Call->run($node, 'CREATE DATABASE unused TEMPLATE template0')->seconds;

	$node->safe_psql('postgres', 'DROP DATABASE unused');
	return $seconds;
}

sub quick_ok
{
	my ($from, $command, %option) = @_;
	my $allowed = seconds_allowed(1, seconds_unhindered());
	my $call = LeafTest::Call->run($node, $command, dbname => $from, %option);

	unlike($call->error, qr/ERROR/, "$command, from $from");
	cmp_ok($call->seconds, '<', $allowed, '... in under a second');
	note sprintf('%.3f s, and %.3g s were allowed', $call->seconds, $allowed);
	return;
}

foreach my $from ('postgres', 'with_extension')
{
	used_database('used');
	quick_ok($from, 'CREATE DATABASE copied TEMPLATE used');
	$highest{copied} = $highest{used};
	use_ok_again('used', 'the origin goes on');
	use_ok_again('copied', 'the copy goes on');
	quick_ok($from, 'CREATE DATABASE copied_file TEMPLATE used STRATEGY file_copy');
	use_ok_again('used', 'the origin goes on');
	quick_ok($from, 'ALTER DATABASE used RENAME TO renamed');
	use_ok_again('renamed', 'the renamed database goes on', 'used');
	quick_ok($from, 'ALTER DATABASE renamed SET TABLESPACE elsewhere');
	use_ok_again('renamed', 'the moved database goes on');
	quick_ok($from, 'ALTER DATABASE renamed SET TABLESPACE pg_default');
	use_ok_again('renamed', 'the database moved back goes on');
	quick_ok($from, 'DROP DATABASE renamed');
	quick_ok($from, 'DROP DATABASE copied WITH (FORCE)');
	quick_ok($from, 'DROP DATABASE IF EXISTS copied_file');
	quick_ok($from, 'DROP DATABASE IF EXISTS renamed');
}

# From within: CREATE DATABASE with the own database as template.
used_database('used');
quick_ok('used', 'CREATE DATABASE copied TEMPLATE used');
quick_ok('used', 'DROP DATABASE copied');
use_ok_again('used', 'the origin goes on');
$node->command_ok([ 'createdb', '-T', 'used', 'copied' ], 'createdb');
$node->command_ok([ 'dropdb', 'copied' ], 'dropdb');

# template1 with the extension and a worker.
create_extension($node, 'template1');
$node->safe_psql('template1', "INSERT INTO leaf_alloc (biz_tag, step) VALUES ('t', 20)");
use_ok_again('template1', 'template1 is in use');
quick_ok('postgres', 'CREATE DATABASE copied');
$highest{copied} = $highest{template1};
use_ok_again('copied', 'the copy goes on');
quick_ok('postgres', 'DROP DATABASE copied');
$node->safe_psql('template1', 'DROP EXTENSION leaf');

# An owner who is no superuser.
$node->safe_psql('postgres', 'CREATE ROLE owner LOGIN CREATEDB; ALTER DATABASE used OWNER TO owner');
quick_ok('postgres', 'ALTER DATABASE used RENAME TO owned', user => 'owner');
use_ok_again('owned', 'it goes on', 'used');

# Somebody who may not.
$node->safe_psql('postgres', 'CREATE ROLE stranger LOGIN');
my $worker = worker_pid($node, 'leaf refill', 'owned');
my $call = LeafTest::Call->run($node, 'DROP DATABASE owned', user => 'stranger');
is($call->sqlstate, '42501', 'a stranger may not drop it');
$call = LeafTest::Call->run($node, 'CREATE DATABASE copied TEMPLATE owned', user => 'stranger');
is($call->sqlstate, '42501', '... nor copy it');
is(worker_pid($node, 'leaf refill', 'owned'), $worker, '... nor send its worker away');
use_ok_again('owned', 'it goes on');

# A command that fails: a session is in the database. It goes on as before.
my $session = $node->background_psql('owned', on_error_stop => 0);
my $last = $session->query_safe("SELECT leaf_segment_nextval('t')");
foreach my $command ('DROP DATABASE owned', 'ALTER DATABASE owned RENAME TO other',
	'ALTER DATABASE owned SET TABLESPACE elsewhere', 'CREATE DATABASE copied TEMPLATE owned')
{
	# PostgreSQL gives other sessions 5 seconds; a timeout shortens that.
	$call = LeafTest::Call->run($node, $command, statement_timeout => '400ms');
	like($call->sqlstate, qr/^(55006|57014)$/, "$command fails while a session is there") or diag($call->error);
	is($session->query_safe("SELECT count(DISTINCT leaf_segment_nextval('t')) FROM generate_series(1, 200)"), '200',
		'... which draws on');
}
$call = LeafTest::Call->run($node, "BEGIN; DROP DATABASE owned", statement_timeout => '400ms');
is($call->sqlstate, '25001', 'DROP DATABASE in a transaction block fails');
is($session->query_safe("SELECT count(DISTINCT leaf_segment_nextval('t')) FROM generate_series(1, 200)"), '200',
	'... and refills go on');
$call = LeafTest::Call->run($node, 'DROP DATABASE no_such_database');
is($call->sqlstate, '3D000', 'a database that is not there');
$session->quit;

# A database that is copied again and again while clients draw from it: the
# command can't succeed while they are there, and they don't notice.
my $ids = LeafTest::Ids->new;
$ids->start($node, "SELECT leaf_segment_nextval('t') FROM generate_series(1, 50)", clients => 2, dbname => 'owned');
$ids->wait_for_more(100);
foreach (1 .. 3)
{
	LeafTest::Call->run($node, 'CREATE DATABASE copied TEMPLATE owned', statement_timeout => '300ms');
	$ids->wait_for_more(500);
}
$ids->stop;
$ids->check_ok('ids drawn during such commands');
unlike($ids->errors, qr/ERROR/, '... without an error');
quick_ok('postgres', 'DROP DATABASE owned');

done_testing();
