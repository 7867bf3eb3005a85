# G10: clocks before the epoch and past the 41 bits are errors, never a negative
# or repeated id; the end has an alarm a year ahead.
# pg_regress can't move the clock by decades.
use strict;
use warnings FATAL => 'all';

use LeafTest;
use LeafTest::Clock;
use LeafTest::Snowflake;
use PostgreSQL::Test::Utils;
use Test::More;

# The offset of a clock that is so many seconds before the last millisecond of
# the default epoch, 2080-07-10.
sub before_end
{
	my ($seconds) = @_;

	return 3487858230 - time - $seconds;
}

my $clock = LeafTest::Clock->new;
my $node = leaf_node('main', snowflake_conf(1023));

$clock->run(sub { $node->start });
create_extension($node);
is(alarms($node), '', 'no alarm long before the end');

# A worker looks at the clock when it has something to do.
sub alarm_at
{
	my ($offset) = @_;

	$clock->move($offset);
	return wait_until('an id', sub {
		my ($rc, $out) = $node->psql('postgres', 'SELECT leaf_snowflake_nextval()');
		$rc == 0 ? $out : 0;
	});
}

alarm_at(before_end(366 * 86400));
is(alarms($node), '', 'no alarm 366 days before the end');
alarm_at(before_end(364 * 86400));
wait_until('the alarm', sub { alarms($node) =~ /^epoch: the 41 bits of time end at 2080-07-10/m });
ok(1, 'an alarm 364 days before the end');

my $id = alarm_at(before_end(10));
cmp_ok($id, '>', 0, 'an id of the last seconds is positive');
cmp_ok($id >> 22, '<', 1 << 41, 'and within 41 bits');
my $last = $id;
my $err;
wait_until('the end',
	sub {
		my ($rc, $out);
		($rc, $out, $err) = $node->psql('postgres', 'SELECT leaf_snowflake_nextval()',
			extra_params => [ '-v', 'VERBOSITY=verbose' ]);
		if ($rc == 0)
		{
			die "id $out after id $last" if $out <= $last;
			$last = $out;
		}
		$rc != 0;
	});
like($err, qr/ERROR:  2200H:.*exhausted.*DETAIL:.*2080-07-10.*HINT:/s, 'the end is error 2200H');
cmp_ok($last >> 22, '>', (1 << 41) - 12_000, 'and was reached by ids');
$clock->move(before_end(-3600));
fails_with($node, 'SELECT leaf_snowflake_nextval()', '2200H', qr/exhausted/, 'an hour later as well');
is($node->safe_psql('postgres', 'SELECT 1'), 1, 'the server is up');
$node->stop;

# A start past the end, of a node that has never issued an id.
my $late = leaf_node('late', snowflake_conf(1));
$clock->run(sub { $late->start });
create_extension($late);
fails_with($late, 'SELECT leaf_snowflake_nextval()', '2200H', qr/exhausted/, 'so does a node that starts then');
$late->stop;

# Before the epoch.
$clock->move(0);
my $early = leaf_node('early', snowflake_conf(1, "leaf.epoch = '4000000000000'"));
$clock->run(sub { $early->start });
create_extension($early);
fails_with($early, 'SELECT leaf_snowflake_nextval()', '22008',
	qr/before the epoch.*DETAIL:.*leaf\.epoch is 2096.*HINT:/s, 'before the epoch: error 22008');
is($early->safe_psql('postgres', 'SELECT generated_at = to_timestamp(4000000000) FROM leaf_snowflake_parse(0)'),
	't', 'ids are read with the epoch that is set');
$early->stop;

# At the epoch itself the first ids are small, and positive.
$early->append_conf('postgresql.conf', "leaf.epoch = '" . (wall_ms() + 3000) . "'\nleaf.worker_id = 0\n"
	  . "leaf.sequence_start = 'zero'\n");
unlink(state_file($early));
$clock->run(sub { $early->start });
$id = wait_until('the first id', sub {
	my ($rc, $out) = $early->psql('postgres', 'SELECT leaf_snowflake_nextval()');
	$rc == 0 ? $out : 0;
});
cmp_ok($id, '>', 0, 'the first id of an epoch is positive');
cmp_ok($id >> 22, '<', 30_000, 'and small');

done_testing();
