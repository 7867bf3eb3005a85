# G2, G9: settings of the database, of a role or of the file do not hurt the
# refill worker: each one alone, at each of the three levels, and all at once.
#
# Not for pg_regress: such settings reach the worker only through
# pg_db_role_setting and postgresql.conf, and the worker has to start anew for
# each of them.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeafTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = leaf_node('main', 'max_worker_processes = 20');
$node->start;

# Each with what a client has to set back for itself to be able to ask at all.
my %settings = (
	default_transaction_read_only => 'on',
	'default_transaction_isolation 1' => 'serializable',
	'default_transaction_isolation 2' => 'repeatable read',
	default_transaction_deferrable => 'on',
	statement_timeout => '1',
	lock_timeout => '1',
	idle_in_transaction_session_timeout => '1',
	idle_session_timeout => '1',
	transaction_timeout => '1',
	search_path => 'evil',
	row_security => 'off',
	session_replication_role => 'replica',
	role => 'nobody',
	log_statement => 'all',
	log_min_duration_statement => '0',
	log_duration => 'on',
	log_error_verbosity => 'verbose',
	client_min_messages => 'error',
	synchronous_commit => 'off',
	debug_parallel_query => 'on',
	force_parallel_mode => 'on',
	enable_indexscan => 'off',
	transform_null_equals => 'on',
	DateStyle => 'German',
	TimeZone => 'Asia/Kathmandu',
	default_tablespace => '',
	default_toast_compression => 'pglz',
	temp_file_limit => '0',
	exit_on_error => 'on',
	jit => 'on',
	jit_above_cost => '0',
	work_mem => '64kB',
	lc_messages => 'C',
	plan_cache_mode => 'force_custom_plan',
	'leaf.wait_timeout' => '0');

# Only what this version of PostgreSQL knows.
my %known = map { $_ => 1 } split /\n/,
  $node->safe_psql('postgres', 'SELECT lower(name) FROM pg_settings');
foreach my $name (keys %settings)
{
	delete $settings{$name} unless $known{ lc guc_name($name) };
}
cmp_ok(scalar keys %settings, '>', 20, 'settings are tried');

sub guc_name
{
	my ($name) = @_;

	return $name =~ s/ .*//r;
}

# What a client needs to be able to ask: its own options win.
$ENV{PGOPTIONS} = join ' ', map { "-c $_" } (
	'default_transaction_read_only=off', 'default_transaction_isolation=read\ committed',
	'default_transaction_deferrable=off', 'statement_timeout=0',
	'lock_timeout=0', 'idle_in_transaction_session_timeout=0',
	'idle_session_timeout=0', 'search_path=public',
	'client_min_messages=notice', 'exit_on_error=off', 'jit=off', 'role=none', 'leaf.wait_timeout=20s',
	$known{transaction_timeout} ? 'transaction_timeout=0' : (),
	$known{debug_parallel_query} ? 'debug_parallel_query=off' : (),
	$known{force_parallel_mode} ? 'force_parallel_mode=off' : ());

$node->safe_psql('postgres', 'CREATE ROLE nobody');
foreach my $level (qw(database role file))
{
	my $dbname = "by_$level";

	$node->safe_psql('postgres', "CREATE DATABASE $dbname");
	$node->safe_psql($dbname, <<'SQL');
CREATE EXTENSION leaf;
CREATE SCHEMA evil;
GRANT ALL ON SCHEMA evil TO PUBLIC;
CREATE TABLE evil.leaf_alloc (LIKE leaf_alloc INCLUDING ALL);
CREATE FUNCTION evil.no(varchar, text) RETURNS boolean LANGUAGE plpgsql AS
	$$BEGIN RAISE EXCEPTION 'look-alike operator'; END$$;
CREATE FUNCTION evil.no(text, text) RETURNS boolean LANGUAGE plpgsql AS
	$$BEGIN RAISE EXCEPTION 'look-alike operator'; END$$;
CREATE FUNCTION evil.no(bigint, bigint) RETURNS bigint LANGUAGE plpgsql AS
	$$BEGIN RAISE EXCEPTION 'look-alike operator'; END$$;
CREATE FUNCTION evil.no(bigint, int) RETURNS bigint LANGUAGE plpgsql AS
	$$BEGIN RAISE EXCEPTION 'look-alike operator'; END$$;
CREATE OPERATOR evil.= (LEFTARG = varchar, RIGHTARG = text, FUNCTION = evil.no);
CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.no);
CREATE OPERATOR evil.+ (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.no);
CREATE OPERATOR evil.+ (LEFTARG = bigint, RIGHTARG = int, FUNCTION = evil.no);
INSERT INTO leaf_alloc (biz_tag, step) VALUES ('t', 10);
SQL
}

# Sets, or with undef resets, at one level.
sub set_at
{
	my ($level, $name, $value) = @_;
	my $what = $level eq 'file' ? 'ALTER SYSTEM'
	  : $level eq 'role' ? 'ALTER ROLE ' . $node->safe_psql('postgres', 'SELECT quote_ident(current_user)')
	  : 'ALTER DATABASE by_database';

	$node->safe_psql('postgres',
		defined $value ? "$what SET $name = '$value'" : "$what RESET $name");
	return;
}

# PostgreSQL can't keep "role" in its file; and with so short a transaction
# timeout there, no client gets far enough to set its own.
sub can_be_set
{
	my ($level, $name) = @_;

	return $level ne 'file' || guc_name($name) !~ /^(role|transaction_timeout)$/;
}

# A new worker draws through many refills, and so does one that was running
# when the file changed.
my $last = 0;

sub refills_ok
{
	my ($level, $test_name) = @_;
	my $dbname = "by_$level";

	my ($rc, $out, $err) = $node->psql($dbname, <<'SQL');
SELECT count(id), count(DISTINCT id), min(id), max(id), (SELECT count(*) FROM evil.leaf_alloc)
FROM (SELECT leaf_segment_nextval('t') AS id FROM generate_series(1, 300)) AS s;
SQL
	my ($count, $distinct, $min, $max, $evil) =
	  $rc == 0 ? split(/\|/, $out) : (0, 0, 0, 0, 0);
	ok($rc == 0 && $count == 300 && $distinct == 300 && $evil == 0, $test_name)
	  or diag("$out $err");
	return;
}

sub end_workers
{
	$node->safe_psql('postgres',
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'leaf refill'");
	wait_until('the refill workers to end',
		sub { !defined worker_pid($node, 'leaf refill') });
	return;
}

# A step that never adapts: 300 ids are 30 refills.
$node->append_conf('postgresql.conf', 'leaf.segment_duration = 0');
$node->reload;

foreach my $name (sort keys %settings)
{
	my @levels = grep { can_be_set($_, $name) } qw(database role file);

	foreach my $level (@levels)
	{
		set_at($level, guc_name($name), $settings{$name});
		$node->reload if $level eq 'file';
		end_workers();
		refills_ok($level, "$name of the $level");
		# the file's holds for every database
		refills_ok('database', "$name of the file, elsewhere")
		  if $level eq 'file';
		set_at($level, guc_name($name));
		$node->reload if $level eq 'file';
	}
}

# A running worker re-reads the file.
refills_ok('file', 'worker is there');
foreach my $name (sort keys %settings)
{
	set_at('file', guc_name($name), $settings{$name})
	  if can_be_set('file', $name);
}
$node->reload;
refills_ok('file', 'all of the file, changed while the worker runs');
end_workers();
refills_ok('file', 'all of the file');

foreach my $name (sort keys %settings)
{
	set_at($_, guc_name($name), $settings{$name}) foreach qw(database role);
}
end_workers();
refills_ok($_, "all at once: by $_") foreach qw(database role file);
is($node->safe_psql('by_database', "SELECT last_error FROM leaf_segment_status WHERE biz_tag = 't'"),
	'', 'no refill failed');
is($node->safe_psql('by_database', 'SELECT count(*) FROM leaf_alarms'),
	'0', 'no alarm');

# They survive a restart with all of that in place.
$node->restart;
refills_ok($_, "all at once, after a restart: by $_")
  foreach qw(database role file);

done_testing();
