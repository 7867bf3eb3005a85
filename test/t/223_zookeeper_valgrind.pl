# G6: the node worker makes no memory error and leaks nothing that grows,
# with a ZooKeeper that comes, goes, freezes and forgets sessions.
#
# Needs the whole server under Valgrind.
use strict;
use warnings FATAL => 'all';

use LeafTest;
use LeafTest::ZooKeeperNode;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'no valgrind (Debian: valgrind)'
  if system('valgrind --version >/dev/null 2>&1') != 0;

my $zk = fast_zookeeper();
my $proxy = LeafTest::ZooKeeperProxy->new($zk->connect_string);
my $node = zookeeper_node('main', $proxy->address,
	'leaf.zookeeper_session_timeout = 4s', "leaf.zookeeper_auth = 'digest:a:b'");
my $dir = PostgreSQL::Test::Utils::tempdir();

$node->start;
create_extension($node);
ok(wait_for_state($node, 'running'), 'runs without Valgrind');
$node->stop('fast');

# Starts the server under Valgrind, has that many sessions expire, among other
# things, and stops it; Valgrind's report on the node worker.
sub run_worker
{
	my ($sessions) = @_;
	my $log = -s $node->logfile;
	my $reports = "$dir/$sessions";

	mkdir $reports or die "could not create \"$reports\": $!";
	my $postmaster = LeafTest::spawn(
		$node->logfile, 'valgrind',
		'--trace-children=yes', '--leak-check=full',
		'--show-leak-kinds=definite', '--errors-for-leak-kinds=definite',
		"--log-file=$reports/%p",
		$node->installed_command('postgres'), '-D', $node->data_dir);
	wait_until('the node to run under Valgrind',
		sub { server_log_since($node, $log) =~ /\[(\d+)\].* leaf node is running/ }, 120);
	my ($pid) = server_log_since($node, $log) =~ /\[(\d+)\].* leaf node is running/;

	$proxy->expire_next($sessions - 1);
	$proxy->expire;
	wait_until('sessions to expire', sub { !$proxy->left_to_expire }, 120);
	foreach my $how ('freeze', 'cut')
	{
		my $seen = -s $node->logfile;

		$proxy->$how;
		wait_until("the alarm ($how)",
			sub { server_log_since($node, $seen) =~ /leaf alarm: zookeeper/ }, 60);
		$proxy->mend;
		wait_until("the end of the alarm ($how)",
			sub { server_log_since($node, $seen) =~ /leaf alarm is over: zookeeper/ }, 60);
	}
	is(LeafTest::reap($postmaster, 'INT'), 0, "$sessions sessions: the server stops");
	return slurp_file("$reports/$pid");
}

# What is lost once, as the server's own code does when it starts, does not
# grow; twenty sessions more must not lose twenty of malloc's smallest pieces.
my %lost;
foreach my $sessions (5, 25)
{
	my $report = run_worker($sessions);
	my @errors = grep { !/definitely lost/ }
	  grep { /^==\d+== \S/ && !/^==\d+== (Memcheck|Copyright|Using|Command|Parent|HEAP|LEAK|All heap|Rerun|For|ERROR|Use|Reachable|To see)/ }
	  split(/\n/, $report);

	like($report, qr/ERROR SUMMARY: \d+ errors/, "$sessions sessions: Valgrind has a report");
	is(scalar(@errors), 0, "$sessions sessions: no memory error") or diag($report);
	($lost{$sessions}) = $report =~ /definitely lost: ([\d,]+) bytes/;
	$lost{$sessions} = ($lost{$sessions} // 0) =~ s/,//gr;
}
cmp_ok($lost{25} - $lost{5}, '<', 20 * 16, "no leak that grows ($lost{5} bytes, then $lost{25})");
done_testing();
