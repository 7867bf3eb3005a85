#!/usr/bin/perl
#
# The part of PostgreSQL's layout that clang-format does not know; a filter for
# its output. As pgindent does, it puts
#
# - the names of declarations 12 columns in (a pointer's stars before that),
# - comments behind code in column 32, or at the next tab stop,
# - a space between the two parentheses of a function pointer, and before the
#   brace of a compound literal.
use strict;
use warnings;

my $NAME_COLUMN = 12;
my $COMMENT_COLUMN = 32;
my $TAB = 4;

my $not_a_type =
  qr/^(?:return|goto|else|case|default|typedef|sizeof|do|if|for|while|switch|break|continue)$/;

# Width of $text printed from $column on.
sub width
{
	my ($text, $column) = @_;
	my $start = $column //= 0;

	foreach my $char (split //, $text)
	{
		$column += $char eq "\t" ? $TAB - $column % $TAB : 1;
	}
	return $column - $start;
}

# White space from column $from to column $to: tabs, but a space where one will do.
sub pad
{
	my ($from, $to) = @_;
	my $pad = '';

	while ($from - $from % $TAB + $TAB <= $to)
	{
		my $next = $from - $from % $TAB + $TAB;

		$pad .= $next - $from == 1 && $next + $TAB > $to ? ' ' : "\t";
		$from = $next;
	}
	return $pad . ' ' x ($to - $from);
}

# The code of a line, without what its strings and comments say.
sub bare
{
	my ($line) = @_;

	$line =~ s{"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|/\*.*?(?:\*/|$)}{}g;
	return $line;
}

# Puts the name of a declaration into its column.
sub align_declaration
{
	my ($line) = @_;

	$line =~ m{^(\t*)(\w[\w\ ]*?)\ (\**(?:volatile\ |const\ )?|\(\*)(\w+)(\)|;|\[|,|\(|\ =|\ :|\ pg_attribute_(?:aligned|unused)\w*\b)(.*)$}x
	  or $line =~ m{^(\t+)(\})\ (\**)(\w+)(;|\[)(.*)$}x
	  or return $line;
	my ($indent, $type, $stars, $name, $mark, $rest) = ($1, $2, $3, $4, $5, $6);

	return $line if grep { /$not_a_type/ } split / /, $type;
	return $line if $type =~ /^(?:struct|union|enum)$/;
	return $line if ($stars eq '(*') != ($mark eq ')');

	my $before = $stars eq '(*' ? 0 : $stars =~ tr/*//;
	my $end = length $type;
	my $to = $NAME_COLUMN - $before;
	my $base = $TAB * length $indent;

	$to = $end + 1 if $to <= $end;
	return $indent . $type . pad($base + $end, $base + $to) . "$stars$name$mark$rest";
}

my $depth = 0;			# open parentheses before this line
my $shift = 0;			# how far the line that opened them was moved
my $comment_column = 0;	# of a comment behind code that goes on; 0: none
my $in_comment = 0;
my $in_define = 0;
my $previous = '';

while (my $line = <STDIN>)
{
	chomp $line;

	if ($in_comment)
	{
		$line =~ s/^\s*\*/pad(0, $comment_column + 1) . '*'/e if $comment_column;
		$in_comment = 0 if $line =~ m{\*/};
		print "$line\n";
		next;
	}

	if ($in_define || $line =~ /^\s*#/)
	{
		$in_define = $line =~ /\\$/;
	}
	elsif ($depth > 0)
	{
		if ($shift)
		{
			my ($indent, $text) = $line =~ /^(\s*)(.*)$/;
			$line = pad(0, width($indent) + $shift) . $text if $text ne '';
		}
	}
	else
	{
		my $moved = align_declaration($line);

		# clang-format takes the name of such a function for a continuation.
		$moved =~ s/^\t// if $previous =~ /^\w.*pg_attribute_noreturn\(\)$/;
		$shift = width($moved) - width($line);
		$line = $moved;
	}
	$line =~ s/\((\*\w+)\)\(/($1) (/g unless $line =~ /^\s*#/;
	$line =~ s/\((\w+)\)\{/($1) {/g;

	if (!$in_define)
	{
		my $bare = bare($line);

		$depth += ($bare =~ tr/(//) - ($bare =~ tr/)//) unless $line =~ /^\s*#/;
		$comment_column = 0;
		my ($code, $comment) = $line =~ m{^(.*?\S)[ \t]+(/\*(?:(?!\*/).)*(?:\*/)?)$};
		if (defined $code && $code !~ m{/\*} && ($code =~ tr/"//) % 2 == 0)
		{
			my $end = width($code);
			my $to = $end < $COMMENT_COLUMN ? $COMMENT_COLUMN : $end + $TAB - $end % $TAB;

			$line = $code . pad($end, $to) . $comment;
			$comment_column = $to;
		}
		my $rest = $line;
		$rest =~ s{"(?:\\.|[^"\\])*"|/\*.*?\*/}{}g;
		$in_comment = $rest =~ m{/\*};
	}
	print "$line\n";
	$previous = $line;
}
