# G1, G2, G8: the decisions of snowflake at their edges: which id comes next,
# and whether a node may start.
# pg_regress can't choose the clock.
use strict;
use warnings FATAL => 'all';

use LeafTest::Unit;
use PostgreSQL::Test::Utils;
use Test::More;

my ($out) = run_command([ build_unit('decisions') ]);

foreach my $line (split /\n/, $out)
{
	ok($1 eq 'ok', $2) if $line =~ /^(ok|not ok) \d+ - (.*)$/;
}
like($out, qr/^1\.\.\d+$/m, 'the program came to its end');
done_testing();
