# G4, G7: a node that has its worker id does not need ZooKeeper: not for its
# start, and not for issuing, whatever happens to ZooKeeper; and it says so in
# one alarm and few lines.
#
# Needs a ZooKeeper to kill, freeze and cut off, and time for it to be missed.
use strict;
use warnings FATAL => 'all';

use LeafTest;
use LeafTest::ZooKeeperNode;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $zk = fast_zookeeper();
my $client;
my $proxy = LeafTest::ZooKeeperProxy->new($zk->connect_string);
my $node = zookeeper_node('main', $proxy->address, 'leaf.wait_timeout = 200ms');
my $own = '/snowflake/leaf/forever/10.1.0.1:5432-0000000000';

# Without ZooKeeper and without a state file.
$proxy->cut;
$node->start;
create_extension($node);
ok(wait_for_state($node, 'refused|no_worker_id'), 'first start without ZooKeeper');
like(status($node, 'detail'), qr/out of reach/, 'it says why');
my (undef, undef, $error) = $node->psql('postgres', 'SELECT leaf_snowflake_nextval()');
like($error, qr/no_worker_id/, 'so does a call');
$proxy->mend;
ok(wait_for_state($node, 'running'), 'runs when it is there');

# With a state file.
$node->stop('fast');
$proxy->freeze;
$node->start;
my $from = time;
ok(wait_for_state($node, 'running', 10), 'start with a frozen ZooKeeper');
cmp_ok(time - $from, '<', 2, 'in under two seconds');
is(status($node, 'worker_id'), 0, 'with the same worker id');
$proxy->mend;
ok( $node->poll_query_until('postgres',
		"SELECT zookeeper_state = 'connected' AND last_report_at > now() - interval '1s' FROM leaf_snowflake_status"),
	'it is back in the cluster when that is there');

# Issuing all the while: how long all but one of a thousand calls take, in ms.
sub slow_call
{
	return $node->safe_psql(
		'postgres', '
		SELECT percentile_cont(0.999) WITHIN GROUP (ORDER BY extract(epoch FROM after - before) * 1000)
		FROM (SELECT clock_timestamp() AS before, leaf_snowflake_nextval(), clock_timestamp() AS after
			FROM generate_series(1, 10000)) AS call');
}

# What the worker's threads have used of the processors, in seconds.
sub cpu_used
{
	my @stat = split(/ /, slurp_file('/proc/' . worker_pid($node, 'leaf node') . '/stat') =~ s/.*\) //r);

	return ($stat[11] + $stat[12]) / POSIX::sysconf(POSIX::_SC_CLK_TCK());
}

my %outage = (
	killed => [ sub { $zk->kill }, sub { $zk->start } ],
	frozen => [ sub { $zk->freeze }, sub { $zk->thaw } ],
	partitioned => [ sub { $proxy->cut }, sub { $proxy->mend } ]);
my $id = next_id($node);
foreach my $how (sort keys %outage)
{
	my $log = -s $node->logfile;

	$outage{$how}[0]->();
	wait_until("the alarm ($how)", sub { alarm_of($node, 'zookeeper') });
	like(alarm_of($node, 'zookeeper'), qr/out of reach/, "$how: an alarm");
	my $slow = slow_call();
	cmp_ok($slow, '<', 10, "$how: 99.9 % of the calls take no time ($slow ms)");
	is(status($node, 'state'), 'running', "$how: the node runs");
	my $next = next_id($node);
	cmp_ok($next, '>', $id, "$how: ids go on");
	$id = $next;

	# longer than a session lasts
	my $end = time + 3;
	my $cpu = cpu_used();
	wait_until('the session to be over', sub { time > $end });
	$cpu = cpu_used() - $cpu;
	cmp_ok($cpu, '<', 0.3, "$how: three seconds of it cost next to nothing ($cpu s)");
	$outage{$how}[1]->();
	wait_until("the end of the alarm ($how)", sub { !alarm_of($node, 'zookeeper') });
	ok( $node->poll_query_until('postgres',
			"SELECT last_report_at > now() - interval '1s' FROM leaf_snowflake_status"),
		"$how: reports go on afterwards");
	$client = LeafTest::ZooKeeperClient->new($zk->connect_string);
	is(scalar(my @temporary = $client->children('/snowflake/leaf/temporary')),
		1, "$how: the ephemeral is there");
	is(scalar(my @forever = forever($client)), 1, "$how: no second node");
	is(status($node, 'worker_id'), 0, "$how: the same worker id");

	my @lines = split(/\n/, server_log_since($node, $log));
	is(scalar(grep { /leaf alarm: zookeeper/ } @lines), 1, "$how: one alarm in the log");
	is(scalar(grep { /leaf alarm is over: zookeeper/ } @lines), 1, "$how: and its end");
	my @client_lines = grep { /ZooKeeper client/ } @lines;
	cmp_ok(scalar(@client_lines), '<=', 6, "$how: few lines of the client")
	  or diag(join("\n", @client_lines));
}

# A session that expired: a new one, by itself.
my ($before) = ($client->get('/snowflake/leaf/temporary/10.1.0.1:5432'))[1]{owner};
$proxy->expire;
my $after = wait_until(
	'a new ephemeral',
	sub {
		my (undef, $stat) = $client->get('/snowflake/leaf/temporary/10.1.0.1:5432');
		$stat && $stat->{owner} != $before && $stat->{owner};
	});
ok($after, 'a session that expired is replaced, with its ephemeral');
my ($data) = $client->get($own);
wait_until('a report in the new session', sub { ($client->get($own))[0] ne $data });
is(status($node, 'state'), 'running', 'it runs on');
is(alarm_of($node, 'zookeeper'), '', 'without an alarm');

# An ephemeral that somebody else deleted comes back.
$client->delete('/snowflake/leaf/temporary/10.1.0.1:5432');
wait_until('the ephemeral', sub { $client->children('/snowflake/leaf/temporary') });
pass('an ephemeral that was deleted comes back');

# Names that do not resolve.
$node->stop('fast');
$node->append_conf('postgresql.conf',
	"leaf.zookeeper_servers = 'nowhere.invalid:2181,also.invalid'");
$node->start;
ok(wait_for_state($node, 'running'), 'start with names that do not resolve');
wait_until('the alarm', sub { alarm_of($node, 'zookeeper') });
like(alarm_of($node, 'zookeeper'), qr/could be resolved/, 'the alarm says so');
$node->stop('fast');
done_testing();
