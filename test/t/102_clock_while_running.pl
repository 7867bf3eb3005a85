# G1, G3, G8: a clock that is moved while the server runs. Back by up to
# leaf.clock_backward_limit is waited out; more is error 55000 at once, an
# alarm, and over by itself; no id is returned twice, however it moves.
# pg_regress can't move the clock.
use strict;
use warnings FATAL => 'all';

use LeafTest;
use LeafTest::Clock;
use LeafTest::Ids;
use LeafTest::Snowflake;
use PostgreSQL::Test::Utils;
use Test::More;

my $clock = LeafTest::Clock->new;
my $node = leaf_node('main', snowflake_conf(2));
$clock->run(sub { $node->start });
create_extension($node);

# Back by a little, over and over, while clients draw: no error, no duplicate.
my $ids = LeafTest::Ids->new;
my $offset = 0;
$ids->start($node, 'SELECT leaf_snowflake_nextval()', clients => 2);
foreach my $step (0.001, 0.004, 0.001, 0.004, 0.003)
{
	$ids->wait_for_more(100);
	$clock->move($offset -= $step);
}
$ids->wait_for_more(100);
is($ids->errors, '', 'a step back of up to 5 ms is waited out');
my $events = status($node, 'clock_backward_events');
cmp_ok($events, '>=', 1, 'and counted');
is(alarms($node), '', 'without an alarm');

# A limit that is large enough to see the wait: twice the distance.
$ids->stop;
$node->append_conf('postgresql.conf', "leaf.clock_backward_limit = '2s'");
$node->reload;
wait_until('the reload to arrive', sub {
	$node->safe_psql('postgres', 'SHOW leaf.clock_backward_limit') eq '2s';
});
next_id($node);
$clock->move($offset -= 1);
my $seconds = seconds_of(sub { next_id($node) });
cmp_ok($seconds, '>', 1, 'a wait is twice the distance: more than once');
cmp_ok($seconds, '<', 4, 'a wait is twice the distance: not much more');

# The wait ends with the statement.
$clock->move($offset -= 1);
fails_with($node, "SET statement_timeout = '200ms'; SELECT leaf_snowflake_nextval()",
	'57014', qr/statement timeout/, 'a wait for the clock can be cancelled');
$clock->move($offset += 1);

# And by leaf.wait_timeout.
next_id($node);
$clock->move($offset -= 1.8);
fails_with($node, "SET leaf.wait_timeout = '300ms'; SELECT leaf_snowflake_nextval()",
	'55000', qr/clock moved back by \d+ ms/, 'a wait for the clock ends after leaf.wait_timeout');
$clock->move($offset += 1.8);

$node->append_conf('postgresql.conf', "leaf.clock_backward_limit = '5ms'");
$node->reload;
wait_until('the reload to arrive', sub {
	$node->safe_psql('postgres', 'SHOW leaf.clock_backward_limit') eq '5ms';
});

# More than the limit: at once, with how far and until when.
foreach my $step (0.1, 2, 3600)
{
	my $before = status($node, 'clock_backward_events');
	my $log_start = -s $node->logfile;
	my $id;

	$ids->start($node, 'SELECT leaf_snowflake_nextval()', clients => 1);
	$ids->wait_for_more(10);
	$ids->stop;
	$id = next_id($node);

	# For the short steps the clock must not have caught up before we look.
	$clock->move($offset - $step - 20);
	my $error = seconds_of(sub {
		fails_with($node, 'SELECT leaf_snowflake_nextval()', '55000',
			qr/clock moved back by \d+ ms.*DETAIL:.*the last snowflake id is of.*HINT:.*as soon as/s,
			"back by $step s and more: an error that says how far and until when");
	});
	cmp_ok($error, '<', 1, 'at once');
	is(status($node, 'state, reason'), 'refused|clock_behind', 'the status says it');
	wait_until('the alarm', sub { alarms($node) =~ /^clock: clock moved back by \d+ ms/m });
	is(status($node, 'clock_backward_events'), $before + 1, 'it is counted once');
	is($node->safe_psql('postgres', 'SELECT 1'), 1, 'the server itself is up');

	$clock->move($offset - $step);
	if ($step < 10)
	{
		wait_until('the clock to catch up', sub {
			($node->psql('postgres', 'SELECT leaf_snowflake_nextval()'))[0] == 0;
		});
	}
	else
	{
		$clock->move($offset);
	}
	cmp_ok(next_id($node), '>', $id, 'it works again by itself, above the last id');
	wait_until('the alarm to be over', sub { alarms($node) eq '' });
	like(server_log_since($node, $log_start),
		qr/leaf alarm: clock: clock moved back.*leaf alarm is over: clock/s,
		'the log has one line when it starts and one when it ends');
	$offset -= $step if $step < 10;
}

# Forward by an hour, and back.
my $before = next_id($node);
$clock->move($offset + 3600);
my $ahead = next_id($node);
cmp_ok(id_time($ahead) - id_time($before), '>', 3_590_000, 'forward by an hour: ids follow');
$clock->move($offset);
fails_with($node, 'SELECT leaf_snowflake_nextval()', '55000', qr/clock moved back by 3[56]\d{5} ms/,
	'and back: an error until the hour has passed');
$clock->move($offset + 3601);
cmp_ok(next_id($node), '>', $ahead, 'then they go on');

# A clock that stands still has one millisecond of ids.
$clock->freeze(time + $offset + 3610);
fails_with($node, "SET leaf.wait_timeout = '300ms'; SELECT leaf_snowflake_nextval() FROM generate_series(1, 5000)",
	'55000', qr/the clock stands still.*HINT:/s, 'a clock that stands still: an error after leaf.wait_timeout');
$clock->move($offset + 3620);
ok(next_id($node) > 0, 'and ids when it goes on');

# What was recorded over all of it.
$ids->check_ok('ids are unique and ordered, however the clock was moved');

done_testing();
