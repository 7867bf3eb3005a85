# G1, G3, G8: a clock that was moved while the server was down, after a clean
# stop and after a crash. Behind the last report by more than it can wait: the
# node refuses (clock_behind), raises an alarm, the database itself is up, and
# the node recovers by itself.
# pg_regress can't restart the server, nor move its clock.
use strict;
use warnings FATAL => 'all';

use LeafTest;
use LeafTest::Clock;
use LeafTest::Ids;
use LeafTest::Snowflake;
use PostgreSQL::Test::Utils;
use Test::More;

my $clock = LeafTest::Clock->new;
my $node = leaf_node('main', snowflake_conf(3));
my $ids = LeafTest::Ids->new;

sub draw
{
	$ids->start($node, 'SELECT leaf_snowflake_nextval()');
	$ids->wait_for_more(20);
	$ids->stop;
	return;
}

$clock->run(sub { $node->start });
create_extension($node);

# Within the limit, or less than the restart took: nothing to see.
my $offset = 0;
foreach my $step (0.001, 0.004)
{
	draw();
	$node->stop;
	$clock->move($offset -= $step);
	$clock->run(sub { $node->start });
	ok(next_id($node) > 0, "set back by $step s while down: the first call succeeds");
	is(alarms($node), '', 'without an alarm');
}

# Set back by more. Then the clock is put right.
foreach my $how ('stop', 'crash')
{
	foreach my $step (120, 3600)
	{
		draw();
		my $last = next_id($node);
		$how eq 'stop' ? $node->stop : crash_postmaster($node);
		$clock->move($offset - $step);
		$clock->run(sub { $node->start });

		wait_for_state($node, 'refused', 'clock_behind');
		is($node->safe_psql('postgres', 'SELECT 1'), 1,
			"set back by $step s after a $how: the database is up");
		my $seconds = seconds_of(sub {
			fails_with($node, 'SELECT leaf_snowflake_nextval()', '55000',
				qr/snowflake ids are refused: clock_behind.*DETAIL:.*ms behind.*HINT:/s,
				'calls are refused and told why');
		});
		cmp_ok($seconds, '<', 2, 'at once');
		like(alarms($node), qr/^snowflake: refused: clock_behind: The clock is \d+ ms behind/m, 'an alarm says it');

		$clock->move($offset);
		wait_for_state($node, 'running');
		cmp_ok(next_id($node), '>', $last, 'the node starts by itself, above the last id');
		is(alarms($node), '', 'and the alarm is over');
	}
}

# A clock that catches up by itself, after a stop and after a crash.
foreach my $how ('stop', 'crash')
{
	foreach my $step (0.1, 2)
	{
		draw();
		my $last = next_id($node);
		my $down = seconds_of(sub { $how eq 'stop' ? $node->stop : crash_postmaster($node) });

		$clock->move($offset -= $step + $down);
		$clock->run(sub { $node->start });
		wait_until('a first id', sub {
			($node->psql('postgres', 'SELECT leaf_snowflake_nextval()'))[0] == 0;
		});
		cmp_ok(next_id($node), '>', $last, "set back by $step s after a $how: it starts when the clock has caught up");
		wait_until('the end of the alarms', sub { alarms($node) eq '' });
	}
}

# An hour ahead, a crash, and back: the ids of that hour exist.
$clock->move($offset + 3600);
wait_until('an id', sub {
	($node->psql('postgres', 'SELECT leaf_snowflake_nextval()'))[0] == 0;
});
my $last = next_id($node);
crash_postmaster($node);
$clock->move($offset);
$clock->run(sub { $node->start });
wait_for_state($node, 'refused', 'clock_behind');
$clock->move($offset + 3610);
wait_for_state($node, 'running');
cmp_ok(next_id($node), '>', $last, 'an hour ahead and back over a crash: never below what was issued');

draw();
$ids->check_ok('ids are unique and ordered over all of it');

done_testing();
