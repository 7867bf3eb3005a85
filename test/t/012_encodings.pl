# G9: a tag is data, whatever its bytes. Tags of 128 characters of four bytes
# each; databases in UTF8, LATIN1, EUC_JP and SQL_ASCII on one server, whose
# tags are the same bytes or the same text; what the worker and the alarms say of
# them can be read.
#
# Not for pg_regress: it needs databases of several encodings, and alarms are
# seen across databases.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use Encode ();
use LeafTest;
use LeafTest::Call;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = leaf_node('main', 'leaf.segment_duration = 0');
$node->start;

my %encodings = (utf8 => 'UTF8', latin1 => 'LATIN1', euc_jp => 'EUC_JP', sql_ascii => 'SQL_ASCII');
foreach my $dbname (sort keys %encodings)
{
	$node->safe_psql('postgres',
		"CREATE DATABASE $dbname ENCODING '$encodings{$dbname}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
	create_extension($node, $dbname);
}

# Adds a tag (an SQL expression), draws through several refills, and gives the
# first id and the number of different ones.
sub draw_many
{
	my ($dbname, $tag, $first) = @_;

	return $node->safe_psql($dbname, <<SQL);
INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ($tag, $first, 10);
SELECT min(id), count(DISTINCT id) FROM (SELECT leaf_segment_nextval($tag) AS id FROM generate_series(1, 200)) AS s;
SQL
}

# UTF8: the longest tags, which differ in their last character only.
my $smile = "U&'\\+01F600'";
my $tag = "repeat($smile, 128)";
is(draw_many('utf8', $tag, 1), '1|200', '128 characters of four bytes');
is( draw_many('utf8', "repeat($smile, 127) || U&'\\+01F601'", 5000),
	'5000|200', 'another that differs in the last character');
is(draw_many('utf8', "repeat($smile, 127)", 7000), '7000|200', 'and one that is its prefix');
is( $node->safe_psql('utf8', "SELECT biz_tag = $tag, next_id FROM leaf_segment_status WHERE next_id < 1000"),
	't|201', 'leaf_segment_status has it whole');
my ($rc, $out, $err) = $node->psql('utf8', "SELECT leaf_segment_nextval(repeat($smile, 129))");
like($err, qr/ERROR/, 'one character more is unknown');
unlike($err, qr/invalid byte sequence/, '... and its message is valid text');
($rc, $out, $err) = $node->psql('utf8', "SELECT leaf_segment_nextval('x' || repeat($smile, 1000000))");
like($err, qr/ERROR/, 'a tag of megabytes is unknown');
cmp_ok(length $err, '<', 10000, '... and its message is short');
unlike($err, qr/invalid byte sequence/, '... and valid text');

# The same text in the four; byte sequences differ, or are not what they look
# like elsewhere.
is(draw_many('utf8', "U&'caf\\00e9'", 1), '1|200', 'UTF8: e acute');
is(draw_many('latin1', "U&'caf\\00e9'", 100), '100|200', 'LATIN1: the same text');
is(draw_many('sql_ascii', "E'caf\\xe9'", 200), '200|200', 'SQL_ASCII: the bytes of LATIN1');
is(draw_many('sql_ascii', "E'caf\\xc3\\xa9'", 300), '300|200', 'SQL_ASCII: the bytes of UTF8');
is(draw_many('sql_ascii', "E'\\xff\\xfe\\x80'", 400), '400|200', 'SQL_ASCII: bytes that are no text');
is(draw_many('latin1', "repeat(U&'\\00ff', 128)", 500), '500|200', 'LATIN1: 128 characters');
is(draw_many('euc_jp', "U&'\\65E5\\672C\\8A9E'", 600), '600|200', 'EUC_JP: kanji');
is(draw_many('euc_jp', "repeat(U&'\\65E5', 128)", 700), '700|200', 'EUC_JP: 128 kanji');
is(draw_many('utf8', "U&'\\65E5\\672C\\8A9E'", 800), '800|200', 'UTF8: kanji');
is( $node->safe_psql($_, 'SELECT count(*) = (SELECT count(*) FROM leaf_alloc) FROM leaf_segment_status'),
	't', "leaf_segment_status of $_ has its own tags only") foreach sort keys %encodings;

# Each in its own transaction's path, too.
foreach (['utf8', "repeat($smile, 126)"], ['latin1', "U&'\\00e9\\00e8'"],
	['euc_jp', "U&'\\65E5'"], ['sql_ascii', "E'\\xff'"])
{
	my ($dbname, $own) = @$_;

	is( $node->safe_psql($dbname, <<SQL), "1\n2", "$dbname: a tag of the own transaction");
BEGIN;
INSERT INTO leaf_alloc (biz_tag, step) VALUES ($own, 10);
SELECT leaf_segment_nextval($own);
SAVEPOINT s;
SELECT leaf_segment_nextval($own);
ROLLBACK TO s;
COMMIT;
SQL
	is($node->safe_psql($dbname, "SELECT leaf_segment_nextval($own) > 2"), 't', '... and after it');
}

# Trouble with such a tag: the errors, the status and the alarms are valid text
# in every database, whatever the tag's own encoding.
my @trouble = (
	[ 'utf8', $tag ],
	[ 'latin1', "repeat(U&'\\00ff', 128)" ],
	[ 'euc_jp', "repeat(U&'\\65E5', 128)" ],
	[ 'sql_ascii', "E'\\xff\\xfe\\x80'" ]);
foreach (@trouble)
{
	my ($dbname, $held) = @$_;
	my $holder = $node->background_psql($dbname);
	my $of_db = "SELECT leaf_segment_nextval($held) FROM generate_series(1, 100)";

	$holder->query_safe('BEGIN');
	$holder->query_safe("SELECT 1 FROM leaf_alloc WHERE biz_tag = $held FOR UPDATE");
	my $call = LeafTest::Call->run($node, $of_db, dbname => $dbname, wait_timeout => '300ms');
	is($call->sqlstate, '55P03', "$dbname: held tag is an error") or diag($call->error);
	wait_until("the alarm of $dbname", sub {
			$node->safe_psql($dbname, 'SELECT count(*) FROM leaf_alarms') });
	foreach my $reader (sort keys %encodings)
	{
		# Text that is not valid in the reader's database can't be converted or
		# taken apart there.
		my ($rc, $out, $err) = $node->psql($reader, <<'SQL');
SELECT count(*),
       count(*) FILTER (WHERE convert_from(convert_to(concat(source, message, hint), getdatabaseencoding()), getdatabaseencoding())
                              <> concat(source, message, hint) OR length(message) = 0)
FROM leaf_alarms;
SQL
		is("$rc $err", '0 ', "alarm of $dbname: leaf_alarms can be read in $reader");
		like($out, $reader eq $dbname ? qr/^[1-9]\d*\|0$/ : qr/\|0$/, '... and is valid text');
	}
	($rc, $out, $err) = $node->psql($dbname, <<'SQL');
SELECT convert_from(convert_to(last_error, getdatabaseencoding()), getdatabaseencoding()) = last_error
FROM leaf_segment_status WHERE last_error IS NOT NULL;
SQL
	like($out, qr/^t/, "$dbname: last_error is valid text") or diag($err);
	$holder->query_safe('COMMIT');
	$holder->quit;
	is($node->safe_psql($dbname, "SELECT count(DISTINCT leaf_segment_nextval($held)) FROM generate_series(1, 100)"),
		'100', "$dbname: served again");
	$node->poll_query_until($dbname, 'SELECT count(*) = 0 FROM leaf_alarms')
	  or die 'timed out waiting for the alarm to end';
}

done_testing();
