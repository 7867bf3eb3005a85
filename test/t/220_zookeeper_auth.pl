# G9: with leaf.zookeeper_auth everybody can read what leaf wrote and only
# that user can write it; a wrong password is a clear alarm and no reason to
# stop; and the secret is seen by superusers only.
#
# Needs a ZooKeeper, the server's log, and the command lines of processes.
use strict;
use warnings FATAL => 'all';

use LeafTest;
use LeafTest::ZooKeeperNode;
use PostgreSQL::Test::Utils;
use Test::More;

my $secret = 'pa55:word/x';
my $zk = fast_zookeeper();
my $node = zookeeper_node('main', $zk->connect_string . '/secured',
	"leaf.zookeeper_auth = 'digest:leaf:$secret'", 'log_min_messages = debug2');

$node->start;
create_extension($node);
ok(wait_for_state($node, 'running'), 'runs with credentials');

my $stranger = LeafTest::ZooKeeperClient->new($zk->connect_string);
my $own = '/secured/snowflake/leaf/forever/10.1.0.1:5432-0000000000';
foreach my $path ($own, '/secured/snowflake/leaf/temporary/10.1.0.1:5432',
	'/secured', '/secured/snowflake', '/secured/snowflake/leaf',
	'/secured/snowflake/leaf/forever', '/secured/snowflake/leaf/temporary')
{
	my @acl = $stranger->acl($path);
	is(scalar(@acl), 2, "$path: two entries");
	is($acl[0], '1:world:anyone', "$path: readable by all");
	like($acl[1], qr/^31:digest:leaf:[\w+\/]+=*$/, "$path: writable by the user");
}
ok(defined(($stranger->get($own))[0]), 'a stranger can read');
ok(!$stranger->set($own, 'x'), 'and not write');
ok(!$stranger->delete($own), 'nor delete');
my $friend = LeafTest::ZooKeeperClient->new($zk->connect_string, auth => "leaf:$secret");
ok($friend->set($own, ($friend->get($own))[0]), 'who has the password can');

# The secret.
$node->safe_psql('postgres', 'CREATE ROLE monitor LOGIN; GRANT pg_monitor TO monitor');
$node->safe_psql('postgres', 'CREATE ROLE somebody LOGIN');
my ($rc, $out, $error) = $node->psql('postgres', 'SHOW leaf.zookeeper_auth',
	extra_params => [ '-U', 'somebody' ]);
isnt($rc, 0, 'SHOW is refused');
is( $node->safe_psql('postgres', "SELECT coalesce(max(setting), '') FROM pg_settings WHERE setting LIKE '%pa55%'",
		extra_params => [ '-U', 'somebody' ]),
	'', 'pg_settings hides it');
my $shown = join(' ',
	map { $node->safe_psql('postgres', "SELECT * FROM $_", extra_params => [ '-U', 'monitor' ]) }
	  qw(leaf_snowflake_status leaf_snowflake_peers leaf_alarms));
unlike($shown, qr/pa55/, 'no view shows it');
unlike(join(' ', `ps -ww -e -o args=`), qr/pa55/, 'no process title shows it');

# A wrong password, with an id in hand and without.
$node->stop('fast');
my $log = -s $node->logfile;
$node->append_conf('postgresql.conf', "leaf.zookeeper_auth = 'digest:leaf:wr0ng'");
$node->start;
ok(wait_for_state($node, 'running'), 'a node that has its id runs on with a wrong password');
wait_until('the alarm', sub { alarm_of($node, 'zookeeper') });
like(alarm_of($node, 'zookeeper'), qr/not authorized/, 'there is an alarm');
is( $node->safe_psql('postgres', "SELECT hint ~ 'leaf.zookeeper_auth' FROM leaf_alarms WHERE source = 'zookeeper'"),
	't', 'with a hint at the setting');
$node->stop('fast');
is(scalar(my @alarms = server_log_since($node, $log) =~ /leaf alarm: zookeeper/g), 1,
	'one alarm, however often it is tried');
unlink($node->data_dir . '/leaf_node.state');
$node->start;
ok(wait_for_state($node, 'refused|no_worker_id'), 'one without an id is refused');
like(status($node, 'detail'), qr/not authorized/, 'and says why');
$node->stop('fast');

# One that can't be meant.
$node->append_conf('postgresql.conf', "leaf.zookeeper_auth = 'pa55word'");
$node->start;
wait_until('the alarm', sub { alarm_of($node, 'zookeeper') });
like(alarm_of($node, 'zookeeper'), qr/leaf.zookeeper_auth/, 'a malformed one is an alarm');
$node->stop('fast');

# TLS asked of a library that has none.
SKIP:
{
	skip 'libzookeeper-mt has TLS', 1
	  if `nm -D /usr/lib/*/libzookeeper_mt.so.2` =~ /zookeeper_init_ssl/;
	$node->append_conf('postgresql.conf', "leaf.zookeeper_auth = ''\nleaf.zookeeper_tls = 'ca.pem,cert.pem,key.pem'");
	$node->start;
	wait_until('the alarm', sub { alarm_of($node, 'zookeeper') });
	like(alarm_of($node, 'zookeeper'), qr/has no TLS/, 'TLS without a library for it is an alarm');
	$node->stop('fast');
	$node->append_conf('postgresql.conf', "leaf.zookeeper_tls = ''");
}

# And the right one.
$node->append_conf('postgresql.conf', "leaf.zookeeper_auth = 'digest:leaf:$secret'");
$node->start;
ok(wait_for_state($node, 'running'), 'the right one works again');
is(status($node, 'worker_id'), 0, 'with the same id');
$node->stop('fast');

my $whole = slurp_file($node->logfile);
unlike($whole, qr/pa55|wr0ng/, 'the log, at its most talkative, has no secret');
like($whole, qr/DEBUG:  ZooKeeper client: /, 'though it has the client in it');
done_testing();
