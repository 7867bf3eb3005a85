# G1, G3, G10: transactions that create, change, delete and use tags in any
# order, with savepoints, against a model of what must come of it: a tag that
# the transaction can see gives ids, one that it can't see is unknown, another
# session sees what is committed, and no id of a tag ever comes twice or falls,
# whatever is rolled back.
#
# Not for pg_regress: the orders are random, and two sessions take turns.
# The seed is in the log; LEAF_TEST_SEED repeats a run.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../perl";

use LeafTest;
use Test::More;

my $steps = $ENV{LEAF_TEST_STEPS} || 1500;
my $seed = $ENV{LEAF_TEST_SEED} || int(rand(1_000_000_000));
srand($seed);
note "seed $seed";

my $node = leaf_ready_node('main', 'leaf.segment_duration = 0', 'leaf.max_tags = 5');
$node->safe_psql('postgres', <<'SQL');
-- The id; or -1: the tag is unknown, or -2: no segment in time.
CREATE FUNCTION try(sql text, timeout text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	answer text;
BEGIN
	PERFORM set_config('leaf.wait_timeout', timeout, false);
	EXECUTE sql INTO answer;
	RETURN answer;
EXCEPTION
	WHEN undefined_object THEN RETURN '-1';
	WHEN lock_not_available THEN RETURN '-2';
END $$;
SQL

my @tags = ('a', 'b', 'c', 'd', 'e', 'f', 'g');
my $base = 1;		# ids of a new row start here; each start is above all others
my $rows = 0;		# rows ever inserted

# What a session sees of a tag: {row, changed}: which row it is, and whether the
# open transaction has locked it by a change. The committed state, and one
# per level of the open transaction.
my $committed = {};
my @levels;
my $truncated = 0;	# the open transaction holds the lock of TRUNCATE

my (%seen, %highest);
my @history;
my @problems;
my %did;

my $writer = $node->background_psql('postgres');
my $reader = $node->background_psql('postgres');

sub copy
{
	my ($state) = @_;

	return { map { $_ => { %{ $state->{$_} } } } keys %$state };
}

sub problem
{
	my ($text) = @_;

	push @problems, join("\n", "$text, after", @history[ ($#history > 40 ? $#history - 40 : 0) .. $#history ]);
	return;
}

sub run
{
	my ($sql) = @_;

	push @history, "writer: $sql";
	$writer->query_safe($sql);
	return;
}

# One draw, of one id or of a block, by either session.
sub draw
{
	my ($who, $tag) = @_;
	my $inside = $who eq 'writer' && @levels;
	my $state = $inside ? $levels[-1] : $committed;
	my $row = $state->{$tag};
	my $own = $inside && $row && !$committed->{$tag};
	my ($was, $is) = ($committed->{$tag}, @levels ? $levels[-1]{$tag} : undef);
	# A committed row that the open transaction has changed can't be refilled.
	my $locked = @levels && $was && (!$is || $is->{row} != $was->{row} || $is->{changed});
	# One that replaces a committed row gives no ids before it commits: those of
	# the committed row go on.
	$row = $was if $row && $was;
	my $may_fail = $locked || ($truncated && $who eq 'reader');
	my $count = rand() < 0.2 ? 1 + int(rand(150)) : 0;
	my $sql = $count ? "SELECT leaf_segment_reserve(''$tag'', $count)" : "SELECT leaf_segment_nextval(''$tag'')";

	$sql = "SELECT try('$sql', '" . ($may_fail ? '40ms' : '60s') . "')";
	my $session = $who eq 'writer' ? $writer : $reader;
	push @history, "$who: $sql";
	my $answer = $session->query_safe($sql);
	$history[-1] .= " -> $answer";

	my ($low, $high) = $answer =~ /^\[(-?\d+),(-?\d+)\)$/ ? ($1, $2 - 1) : ($answer, $answer);
	$did{ $answer eq '-1' ? 'unknown' : $answer eq '-2' ? 'timed out' : $inside && $own ? 'own id' : 'id' }++;

	if ($answer eq '-2')
	{
		problem("no segment of $tag") unless $may_fail;
		return;
	}
	if ($answer eq '-1')
	{
		problem("$tag is unknown") if $row;
		return;
	}
	if (!$row)
	{
		problem("$tag is known");
		return;
	}
	problem("block of the wrong length") if $count && $high - $low + 1 != $count;
	foreach my $id ($low .. $high)
	{
		problem("id $id of $tag came twice") if $seen{$tag}{$id}++;
	}
	problem("id $low of $tag came after $highest{$row->{row}}")
	  if defined $highest{ $row->{row} } && $low <= $highest{ $row->{row} };
	$highest{ $row->{row} } = $high;
	return;
}

sub new_base
{
	$base += 1_000_000;
	return $base;
}

sub change
{
	my ($state) = @_;
	my $tag = $tags[ rand @tags ];
	my $what = rand();

	if ($what < 0.03)
	{
		run('TRUNCATE leaf_alloc');
		$truncated = 1;
		%$state = ();
	}
	elsif (!$state->{$tag})
	{
		run("INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('$tag', " . new_base() . ', ' . (1 + int(rand(100))) . ')');
		$state->{$tag} = { row => ++$rows, changed => 1 };
	}
	elsif ($what < 0.3)
	{
		run("DELETE FROM leaf_alloc WHERE biz_tag = '$tag'");
		delete $state->{$tag};
	}
	elsif ($what < 0.5)
	{
		run("UPDATE leaf_alloc SET max_id = " . new_base() . " WHERE biz_tag = '$tag'");
		$state->{$tag}{changed} = 1;
	}
	elsif ($what < 0.6)
	{
		run("UPDATE leaf_alloc SET description = 'again' WHERE biz_tag = '$tag'");
		$state->{$tag}{changed} = 1;
	}
	elsif ($what < 0.7)
	{
		run("UPDATE leaf_alloc SET step = 1 + step % 100 WHERE biz_tag = '$tag'");
		$state->{$tag}{changed} = 1;
	}
	else
	{
		run("SELECT 1 FROM leaf_alloc WHERE biz_tag = '$tag' FOR UPDATE");
		$state->{$tag}{changed} = 1;
	}
	return;
}

sub commit
{
	run('COMMIT');
	$committed = $levels[-1];
	end();
	return;
}

sub end
{
	$_->{changed} = 0 foreach values %$committed;
	@levels = ();
	$truncated = 0;
	return;
}

foreach my $step (1 .. $steps)
{
	my $what = rand();

	if ($what < 0.40)
	{
		draw('writer', $tags[ rand @tags ]) foreach 1 .. 1 + int(rand(3));
	}
	elsif ($what < 0.55)
	{
		draw('reader', $tags[ rand @tags ]);
	}
	elsif (!@levels)
	{
		if ($what < 0.80)
		{
			run('BEGIN');
			@levels = (copy($committed));
		}
		else
		{
			change($committed);
			end();
		}
	}
	elsif ($what < 0.75)
	{
		change($levels[-1]);
	}
	elsif ($what < 0.85)
	{
		run('SAVEPOINT s' . scalar @levels);
		push @levels, copy($levels[-1]);
	}
	elsif ($what < 0.92 && @levels > 1)
	{
		my $to = 1 + int(rand($#levels));

		run("ROLLBACK TO s$to");
		$#levels = $to - 1;
		push @levels, copy($levels[-1]);
	}
	elsif ($what < 0.95 && @levels > 1)
	{
		my $to = 1 + int(rand($#levels));
		my $state = $levels[-1];

		run("RELEASE s$to");
		$#levels = $to - 1;
		$levels[-1] = $state;
	}
	elsif ($what < 0.985)
	{
		commit();
	}
	else
	{
		run('ROLLBACK');
		end();
	}
	last if @problems >= 3;
}
run('ROLLBACK') if @levels;
$_->quit foreach $writer, $reader;

note join ', ', map { "$_: $did{$_}" } sort keys %did;
is(scalar @problems, 0, 'every draw is as the model says') or diag("seed $seed\n" . join("\n\n", @problems));
cmp_ok($did{$_} // 0, '>', 10, "there were enough: $_") foreach 'id', 'own id', 'unknown', 'timed out';

done_testing();
