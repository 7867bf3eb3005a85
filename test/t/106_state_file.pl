# G1, G10: what a node makes of a state file that is damaged, truncated, gone,
# of another node, of another source, of another worker id or of another epoch:
# each has its answer, and none of them is a duplicate.
# pg_regress can't restart the server.
use strict;
use warnings FATAL => 'all';

use File::Copy;
use LeafTest;
use LeafTest::Clock;
use LeafTest::Host;
use LeafTest::Snowflake;
use PostgreSQL::Test::Utils;
use Test::More;

my $clock = LeafTest::Clock->new;
my $host = LeafTest::Host->new;
my $node = leaf_node('main', snowflake_conf(10, "leaf.node_address = 'one:1'"));
my $file = state_file($node);
my $saved = PostgreSQL::Test::Utils::tempdir() . '/saved';
$host->name('leaf-20');

sub start
{
	$clock->run(sub { $host->run(sub { $node->start }) });
	return;
}

sub set
{
	$node->append_conf('postgresql.conf', $_) foreach @_;
	return;
}

start();
create_extension($node);
my $last = next_id($node);
$node->stop;
copy($file, $saved) or die "could not copy: $!";
my $size = -s $file;

# Not a file of ours any more: refused until it is put right or removed.
my %damage = (
	'a flipped bit' => sub {
		open(my $f, '+<', $file) or die $!;
		seek($f, 100, 0);
		read($f, my $byte, 1);
		seek($f, 100, 0);
		print $f chr(ord($byte) ^ 1);
		close $f;
	},
	'half of it' => sub { truncate($file, $size / 2) or die $! },
	'nothing in it' => sub { truncate($file, 0) or die $! },
	'more than it' => sub { append_to_file($file, 'x') },
	'something else' => sub { unlink $file; append_to_file($file, 'y' x $size) },
	'a folder' => sub { unlink $file; mkdir $file or die $! });

foreach my $name (sort keys %damage)
{
	$damage{$name}->();
	start();
	wait_for_state($node, 'refused', 'state_file_invalid');
	fails_with($node, 'SELECT leaf_snowflake_nextval()', '55000',
		qr/refused: state_file_invalid.*DETAIL:.*leaf_node\.state.*HINT:.*[Rr]estore the file/s,
		"$name: refused, and told why");
	like(alarms($node), qr/^snowflake: refused: state_file_invalid/m, 'with an alarm');
	is($node->safe_psql('postgres', 'SELECT 1'), 1, 'the database is up');

	# Put back while the server runs: it starts by itself.
	rmdir $file if -d $file;
	copy($saved, "$file.copy") or die "could not copy: $!";
	rename("$file.copy", $file) or die "could not rename: $!";
	wait_for_state($node, 'running');
	cmp_ok(next_id($node), '>', $last, 'it starts by itself once the file is put back');
	$last = next_id($node);
	$node->stop;
	copy($file, $saved) or die "could not copy: $!";
}

# Gone: a new node.
unlink $file;
start();
cmp_ok(next_id($node), '>', $last, 'without a file the node starts as a new one');
$last = next_id($node);
ok(-e $file, 'and has a file again');
$node->stop;

# A node whose clock is an hour ahead leaves a file with a bound of then.
sub leave_file_of_the_future
{
	$clock->move(3600);
	start();
	$last = next_id($node);
	$node->stop('immediate');
	$clock->move(0);
	return;
}

# Another worker id on the same server: ids of one server only grow (G3).
leave_file_of_the_future();
set('leaf.worker_id = 11');
start();
wait_for_state($node, 'refused', 'clock_behind');
ok(1, 'another worker id on the same server: not below its own ids');
$clock->move(3610);
wait_for_state($node, 'running');
cmp_ok(next_id($node), '>', $last, 'but above them');
$node->stop('immediate');
$clock->move(0);

# The same worker id under another name, or from another source, or in another
# cluster: its ids are below the bound, whoever made them.
set("leaf.node_address = 'two:2'");
start();
wait_for_state($node, 'refused', 'clock_behind');
ok(1, 'another node of the same worker id: not below its ids');
$node->stop;
set("leaf.node_address = 'one:1'", "leaf.cluster_name = 'other'");
start();
wait_for_state($node, 'refused', 'clock_behind');
ok(1, 'the same node in another cluster: not below its ids');
$node->stop;
$host->name('leaf-11');
set("leaf.node_address = 'two:2'", "leaf.worker_id_source = 'hostname'");
start();
wait_for_state($node, 'refused', 'clock_behind');
ok(1, 'the same worker id from another source: not below its ids');
$node->stop;

# Another node with another worker id: a copy of the data directory. Nothing of
# the file is its own, so it is not believed.
$host->name('leaf-20');
my $log_start = -s $node->logfile;
start();
wait_for_state($node, 'running');
is(status($node, 'worker_id'), 20, 'another node with another worker id: starts');
cmp_ok(id_time(next_id($node)), '<', wall_ms() + 60_000, 'with the right time');
like(server_log_since($node, $log_start),
	qr/leaf node ignores the state file of another node/, 'and says that it ignores the file');
$last = next_id($node);
$node->stop;

# Another epoch: the same distance from it would be the same id.
set("leaf.epoch = '1588834974657'");
start();
wait_for_state($node, 'refused', 'state_file_invalid');
fails_with($node, 'SELECT leaf_snowflake_nextval()', '55000',
	qr/state_file_invalid.*DETAIL:.*leaf\.epoch was 1288834974657.*would repeat until 20.*HINT:.*Set leaf\.epoch back/s,
	'an epoch moved forward: refused, as ids would repeat');
$node->stop;
set("leaf.epoch = '1188834974657'");
start();
cmp_ok(next_id($node), '>', $last, 'an epoch moved back: ids are above all of before');
$last = next_id($node);
$node->stop;
set("leaf.epoch = '1288834974657'");
start();
wait_for_state($node, 'refused', 'state_file_invalid');
ok(1, 'and forward again: refused');
$node->stop;

done_testing();
