# G4, G5, G10: a tag whose row is locked by another session. What is in hand is
# served; then a call ends within leaf.wait_timeout and says who holds the lock;
# cancel, terminate and statement_timeout end a wait at once; all who wait get
# their ids soon after the lock goes; other tags feel nothing; nobody logs in a
# loop.
#
# Not for pg_regress or isolation specs: they can't interrupt a session that
# waits for something that is no lock of its own, nor read a DETAIL with a pid.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeafTest;
use LeafTest::Call;
use PostgreSQL::Test::Utils;
use Test::More;

# Bounds of seconds tell waits of a session's own leaf.wait_timeout from one of
# the server's, even on a busy machine.
my $node = leaf_ready_node('main', 'leaf.segment_duration = 0', 'leaf.wait_timeout = 5min',
	'max_prepared_transactions = 5');
my $draw = "SELECT leaf_segment_nextval('t')";

$node->safe_psql('postgres',
	"INSERT INTO leaf_alloc (biz_tag, step) VALUES ('t', 100), ('other', 10), ('cold', 100)");
is($node->safe_psql('postgres', $draw), '1', 'first id');

my $holder = $node->background_psql('postgres');
$holder->query_safe('BEGIN');
$holder->query_safe("SELECT biz_tag FROM leaf_alloc WHERE biz_tag IN ('t', 'cold') FOR UPDATE");
my $holder_pid = $holder->query_safe('SELECT pg_backend_pid()');

# What is in hand.
is( $node->safe_psql('postgres', "SELECT count(*), max(id) FROM (SELECT leaf_segment_nextval('t') AS id FROM generate_series(1, 99)) AS s"),
	'99|100', 'the segment is served while its row is locked');

# Used up.
my $log_from = -s $node->logfile;
my $call = LeafTest::Call->run($node, $draw, wait_timeout => '700ms');
is($call->sqlstate, '55P03', 'used up: an error') or diag($call->error);
cmp_ok($call->seconds, '>=', 0.7, 'not before leaf.wait_timeout');
cmp_ok($call->seconds, '<', 30, 'soon after leaf.wait_timeout');
like($call->error, qr/^ERROR: .*"t"/m, 'the error names the tag');
like($call->error, qr/^DETAIL: .*\b$holder_pid\b/m, 'the DETAIL names the holder');
like($call->error, qr/^HINT: /m, 'there is a HINT');

$call = LeafTest::Call->run($node, "SELECT leaf_segment_nextval('cold')", wait_timeout => '300ms');
is($call->sqlstate, '55P03', 'a tag that was never loaded: the same error');
like($call->error, qr/^DETAIL: .*\b$holder_pid\b/m, '... with the holder');
$call = LeafTest::Call->run($node, "SELECT leaf_segment_reserve('t', 5000)", wait_timeout => '300ms');
is($call->sqlstate, '55P03', 'a block: the same error');
like($call->error, qr/^DETAIL: .*\b$holder_pid\b/m, '... with the holder');
$call = LeafTest::Call->run($node, $draw, wait_timeout => '0');
is($call->sqlstate, '55P03', 'leaf.wait_timeout = 0 waits for nothing');

# Another tag is refilled as ever.
my $other = LeafTest::Call->run($node,
	"SELECT count(DISTINCT leaf_segment_nextval('other')) FROM generate_series(1, 2000)");
is($other->result, '2000', 'another tag is served through 200 refills');

# An alarm, with the tag and a hint, as long as it lasts.
wait_until('the alarm', sub {
		$node->safe_psql('postgres', "SELECT count(*) FROM leaf_alarms WHERE concat(source, message) ~ '\\mt\\M' AND hint <> ''")
	});
pass('leaf_alarms shows the tag');
isnt($node->safe_psql('postgres', "SELECT last_error FROM leaf_segment_status WHERE biz_tag = 't' AND last_error_at IS NOT NULL"),
	'', 'so does leaf_segment_status');

# Interrupts.
my @interrupts = (
	[ 'pg_cancel_backend', '57014' ],
	[ 'pg_terminate_backend', '57P01' ]);
foreach (@interrupts)
{
	my ($function, $sqlstate) = @$_;

	foreach my $sql ($draw, "SELECT leaf_segment_reserve('t', 5000)",
		"SELECT leaf_segment_nextval('cold')")
	{
		$call = LeafTest::Call->new($node, $sql, wait_timeout => '10min');
		$call->wait_until_waiting;
		my $since = $call->mark;
		$node->safe_psql('postgres', "SELECT $function(" . $call->pid . ')');
		cmp_ok($call->finish($since), '<', 30, "$function ends \"$sql\" at once");
		is($call->sqlstate, $sqlstate, '... with its own error');
	}
}
$call = LeafTest::Call->run($node, $draw, wait_timeout => '10min', statement_timeout => '300ms');
is($call->sqlstate, '57014', 'statement_timeout ends a wait');
cmp_ok($call->seconds, '<', 30, '... at once');

# A session is as before after a cancelled wait.
my $session = $node->background_psql('postgres', on_error_stop => 0);
$session->query_safe("SET leaf.wait_timeout = '10min'");
$session->query_safe("SET statement_timeout = '200ms'");
$session->query($draw);
$session->{stderr} = '';
$session->query_safe('RESET ALL');
is($session->query_safe("SELECT leaf_segment_nextval('other')"), '2001',
	'a session goes on after a cancelled wait');

# Everybody who waits is served soon after the lock goes, and long before the
# end of their patience.
my @waiting = map { LeafTest::Call->new($node, $draw, wait_timeout => '2min') } 1 .. 8;
$_->wait_until_waiting foreach @waiting;
my $since = LeafTest::Call->mark;
$holder->query_safe('COMMIT');
my @ids;
foreach my $waiting (@waiting)
{
	cmp_ok($waiting->finish($since), '<', 30, 'a waiting call ends after the lock');
	push @ids, $waiting->result;
}
my %distinct = map { $_ => 1 } grep { /^\d+$/ && $_ > 100 } @ids;
is(scalar keys %distinct, 8, 'with an id each') or diag(join ' ', @ids);
is($session->query_safe('SELECT leaf_segment_nextval(\'t\') > 100'), 't', 'and on');
is($node->safe_psql('postgres', "SELECT leaf_segment_nextval('cold')"), '1', 'and on');
$session->quit;

$node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM leaf_alarms')
  or die 'timed out waiting for the alarms to end';
pass('no alarm is left');

# The log has each alarm's start and its end, and nothing in a loop.
my @lines = grep { /leaf/ && !/STATEMENT|ERROR|DETAIL|HINT|FATAL|CONTEXT/ } split /\n/, server_log_since($node, $log_from);
cmp_ok(scalar @lines, '<=', 8, 'nobody logs in a loop') or diag(join "\n", @lines);
cmp_ok(scalar(grep { /alarm/ } @lines), '>=', 2, 'the alarm is in the log');

# The whole table is locked: the same, for what is in hand and what is not.
$node->safe_psql('postgres', "INSERT INTO leaf_alloc (biz_tag) VALUES ('never used')");
$holder->query_safe('BEGIN');
$holder->query_safe('LOCK TABLE leaf_alloc IN ACCESS EXCLUSIVE MODE');
is($node->safe_psql('postgres', $draw . ' > 100'), 't', 'table locked: what is in hand is served');
$call = LeafTest::Call->run($node, "SELECT leaf_segment_nextval('never used')", wait_timeout => '700ms');
is($call->sqlstate, '55P03', 'table locked: an error for what is not in hand') or diag($call->error);
cmp_ok($call->seconds, '<', 30, '... soon after leaf.wait_timeout');
like($call->error, qr/^DETAIL: .*\b$holder_pid\b/m, '... with the holder');
$call = LeafTest::Call->run($node, "SELECT leaf_segment_nextval('no such tag')", wait_timeout => '700ms');
like($call->sqlstate, qr/55P03|42704/, 'table locked: an error for an unknown tag');
cmp_ok($call->seconds, '<', 30, '... soon after leaf.wait_timeout');
$call = LeafTest::Call->new($node, "SELECT leaf_segment_nextval('never used')", wait_timeout => '10min');
$call->pid;
$since = $call->mark;
$node->safe_psql('postgres', 'SELECT pg_cancel_backend(' . $call->pid . ')');
cmp_ok($call->finish($since), '<', 30, 'table locked: cancelled at once');
is($call->sqlstate, '57014', '... with its own error');
$holder->query_safe('COMMIT');
is($node->safe_psql('postgres', "SELECT leaf_segment_nextval('never used')"), '1', 'table free: served');

# Other locks that a reservation has to wait for: of a table that may be read,
# of a row that several have, of a transaction without a process.
my $many = "SELECT count(DISTINCT leaf_segment_nextval('other')) FROM generate_series(1, 50)";
$holder->query_safe('BEGIN');
$holder->query_safe('LOCK TABLE leaf_alloc IN SHARE MODE');
$call = LeafTest::Call->run($node, $many, wait_timeout => '500ms');
is($call->sqlstate, '55P03', 'table locked for writing: an error');
like($call->error, qr/^DETAIL: .*\b$holder_pid\b/m, '... with the holder');
$holder->query_safe('COMMIT');
is(LeafTest::Call->run($node, $many, wait_timeout => '1min')->result, '50', '... and served after it');

my $holder2 = $node->background_psql('postgres');
my $holder2_pid = $holder2->query_safe('SELECT pg_backend_pid()');
foreach ($holder, $holder2)
{
	$_->query_safe('BEGIN');
	$_->query_safe("SELECT 1 FROM leaf_alloc WHERE biz_tag = 'other' FOR SHARE");
}
$call = LeafTest::Call->run($node, $many, wait_timeout => '500ms');
is($call->sqlstate, '55P03', 'row shared by two: an error');
like($call->error, qr/^DETAIL: .*\b($holder_pid|$holder2_pid)\b/m, '... with a holder');
$holder->query_safe('COMMIT');
$call = LeafTest::Call->run($node, $many, wait_timeout => '500ms');
is($call->sqlstate, '55P03', 'row shared by one of them still: an error');
$holder2->query_safe('COMMIT');
is(LeafTest::Call->run($node, $many, wait_timeout => '1min')->result, '50', '... and served after it');

$holder->query_safe('BEGIN');
$holder->query_safe("SELECT 1 FROM leaf_alloc WHERE biz_tag = 'other' FOR UPDATE");
$holder->query_safe("PREPARE TRANSACTION 'holder'");
$call = LeafTest::Call->run($node, $many, wait_timeout => '500ms');
is($call->sqlstate, '55P03', 'row locked by a prepared transaction: an error');
like($call->error, qr/^DETAIL: .*prepared transaction/m, '... that says so');
$holder->query_safe("ROLLBACK PREPARED 'holder'");
is(LeafTest::Call->run($node, $many, wait_timeout => '1min')->result, '50', '... and served after it');

# A foreign key to the tag locks its row, but not against reservations.
$holder->query_safe('CREATE TABLE uses (tag varchar(128) REFERENCES leaf_alloc)');
$holder->query_safe('BEGIN');
$holder->query_safe("INSERT INTO uses VALUES ('other')");
is(LeafTest::Call->run($node, $many, wait_timeout => '1min')->result, '50', 'a foreign key is in nobody\'s way');
is($holder->query_safe($many), '50', '... nor in that of its own transaction');
$holder->query_safe('COMMIT');
$_->quit foreach $holder, $holder2;

done_testing();
