# LeafTest/Unit.pm
#	Programs of test/unit, built against the sources that they test.
package LeafTest::Unit;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use File::Basename;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(build_unit);

# Builds test/unit/$name.c, with the given files of src; returns the program.
sub build_unit
{
	my ($name, @sources) = @_;
	my $top = dirname(__FILE__) . '/../../..';
	my $program = PostgreSQL::Test::Utils::tempdir() . "/$name";
	my ($includes) = run_command([ 'pg_config', '--includedir-server' ]);

	PostgreSQL::Test::Utils::system_or_bail($ENV{CC} // 'cc', '-Wall', "-I$top/src", "-I$includes",
		'-D_GNU_SOURCE', '-o', $program, "$top/test/unit/$name.c", map { "$top/src/$_" } @sources);
	return $program;
}

1;
