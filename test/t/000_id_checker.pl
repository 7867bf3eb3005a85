# Tests the tests: LeafTest::Ids sees a duplicate (G1) and a broken order (G3)
# in what its clients wrote, and nothing else. Its users can't show that: they
# pass when it sees nothing.
use strict;
use warnings FATAL => 'all';

use LeafTest;
use LeafTest::Ids;
use Test::More;

# problems NAME, [expected], options, what each client wrote (start end id)
sub problems_are
{
	my ($name, $expected, $option, @clients) = @_;
	my $ids = LeafTest::Ids->new;

	foreach my $lines (@clients)
	{
		open(my $file, '>', "$ids->{dir}/$ids->{started}.ids")
		  or die "could not create file: $!";
		print $file map { "$_\n" } @$lines;
		close $file;
		$ids->{started}++;
	}
	is_deeply([ $ids->problems(%$option) ], $expected, $name);
}

problems_are('calls one after the other', [], {}, [ '1 5 10', '6 8 12' ], [ '9 10 13' ]);
problems_are('calls at the same time', [], {}, [ '1 5 10', '6 8 12' ], [ '2 6 11', '7 9 9999999999' ]);
problems_are('an answer of several ids', [], {}, [ '1 5 10', '1 5 11', '6 8 12' ]);

problems_are('two clients, one id', ['id 10 was returned twice'], {}, ['1 5 10'], ['2 6 10']);
problems_are('one client, one id',
	[ 'id 10 was returned twice', 'id 10 was returned after id 10' ],
	{}, [ '1 5 10', '6 7 10' ]);
problems_are('order across clients', ['id 9 was returned after id 10'], {}, ['1 5 10'], ['6 7 9']);
problems_are('a late answer to an early call', [], {}, ['1 5 10'], ['5 7 9']);
problems_are('order within an answer', ['id 9 follows id 10 in one answer'], {}, [ '1 5 10', '1 5 9' ]);
problems_are('no order expected', [], { unordered => 1 }, ['1 5 10'], ['6 7 9']);
problems_are('the largest ids',
	['id 9223372036854775806 was returned after id 9223372036854775807'],
	{}, [ '1 2 9223372036854775807', '3 4 9223372036854775806' ]);

done_testing();
