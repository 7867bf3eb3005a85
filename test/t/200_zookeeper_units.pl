# G1, G6: the decisions about what is found in ZooKeeper, the reading of what
# others wrote there, and the mailbox between the client's threads and the
# server, by the programs in test/unit; the mailbox under ThreadSanitizer or,
# where that can't run, under Valgrind's helgrind.
#
# C functions without SQL, and threads: nothing that pg_regress can reach.
use strict;
use warnings FATAL => 'all';

use File::Basename;
use PostgreSQL::Test::Utils;
use Test::More;

my $root = dirname(__FILE__) . '/../..';
my $dir = PostgreSQL::Test::Utils::tempdir();

sub pg_config
{
	my ($what) = @_;
	my $value = qx($ENV{PG_CONFIG} --$what);

	chomp $value;
	return $value;
}

$ENV{PG_CONFIG} //= 'pg_config';
my @compiler = ('gcc', '-std=gnu99', '-g', '-O1', '-I', pg_config('includedir-server'),
	'-I', "$root/src", '-I', "$root/test/unit");
my @libraries = (
	'-L', pg_config('libdir'), '-L', pg_config('pkglibdir'),
	'-lpgcommon', '-lpgport', '-lpthread', '-lm');

# Compiles one test with the sources that it is about; its path.
sub build
{
	my ($test, $sources, @options) = @_;
	my $program = "$dir/" . join('', $test, @options) =~ s/\W+/_/gr;

	system(@compiler, @options, '-o', $program, "$root/test/unit/$test.c",
		map({ "$root/src/$_" } @$sources), @libraries) == 0
	  or die "could not compile test/unit/$test.c";
	return $program;
}

# Each of the program's own tests is one of ours.
sub run_unit
{
	my ($name, @command) = @_;
	my ($output, $errors) = ('', '');

	IPC::Run::run(\@command, '>', \$output, '2>', \$errors);
	my $status = $?;
	my ($planned) = $output =~ /^1\.\.(\d+)$/m;
	my $passed = () = $output =~ /^ok /mg;
	my @failed = $output =~ /^not ok \d+ - (.*)$/mg;

	ok($status == 0 && $planned && $passed == $planned, $name)
	  or diag("$name: status $status, failed: @failed\n$errors");
	return ($status, $errors);
}

run_unit('names and contents of nodes',
	build('node_data', ['zookeeper/node_data.c'], '-fsanitize=address,undefined'));
run_unit('decisions',
	build('zookeeper_plan', ['snowflake/zookeeper_plan.c'], '-fsanitize=address,undefined'));

# gcc's ThreadSanitizer wants an address space without much randomness.
my $mailbox = build('mailbox', ['zookeeper/mailbox.c'], '-fsanitize=thread');
my $probe = system("setarch -R $mailbox >/dev/null 2>$dir/probe");
if ($probe == 0 || slurp_file("$dir/probe") =~ /data race/)
{
	run_unit('mailbox under ThreadSanitizer', 'setarch', '-R', $mailbox);
}
else
{
	run_unit('mailbox under helgrind', 'valgrind', '--tool=helgrind', '-q',
		'--error-exitcode=9', build('mailbox', ['zookeeper/mailbox.c']));
}

done_testing();
