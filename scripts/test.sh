#!/usr/bin/env bash
#
# Runs the regression tests, the isolation specs and the TAP tests against the
# installed extension, prints what failed, and ends with "N passed, N failed".
#
# PostgreSQL refuses root, so root's run happens in a copy of the tree as user
# postgres; anybody else's in the tree itself.
#
# PG_CONFIG: which PostgreSQL. TESTS: names of the tests to run, of any kind
# (default: all). JOBS: TAP files at once. KEEP=1: keep
# the copy with all its data; else only the logs of a run that failed are kept.
set -euo pipefail
cd "$(dirname "$0")/.."

PG_CONFIG=${PG_CONFIG:-pg_config}
passed=0
failed=0

# copy_tree FOLDER: the files that are or could be committed, without products.
copy_tree()
{
	if git -c safe.directory='*' rev-parse --is-inside-work-tree >/dev/null 2>&1; then
		git -c safe.directory='*' ls-files -z --cached --others --exclude-standard |
			while IFS= read -r -d '' file; do
				[ ! -e "$file" ] || printf '%s\0' "$file"
			done | tar -c --null -T - | tar -x -C "$1"
	else
		tar -c --exclude='*.o' --exclude='*.so' --exclude='*.bc' . | tar -x -C "$1"
	fi
	if [ -d test/clients/node_modules ]; then
		cp -r test/clients/node_modules "$1/test/clients/"
	fi
}

if [ "$(id -u)" = 0 ]; then
	copy=$(mktemp -d /tmp/leaf-test.XXXXXX)
	copy_tree "$copy"
	chown -R postgres: "$copy"
	status=0
	(cd "$copy" && runuser -u postgres -- env -u CDPATH HOME="$copy" PG_CONFIG="$PG_CONFIG" \
		TESTS="${TESTS:-}" JOBS="${JOBS:-}" scripts/test.sh) || status=$?
	if [ -n "${KEEP:-}" ]; then
		echo "All files of this run are in $copy" >&2
	elif [ $status = 0 ]; then
		rm -rf "$copy"
	else
		rm -rf "$copy"/tmp_check/t_* "$copy"/test_output/*_instance
		echo "The logs of this run are in $copy" >&2
	fi
	exit $status
fi

# select_tests PREFIX SUFFIX: names of the files in between that are wanted.
select_tests()
{
	local file name

	for file in "$1"*"$2"; do
		name=${file#"$1"}
		name=${name%"$2"}
		case "$name" in
			'*' | leaf--*) continue ;;
		esac
		case " ${TESTS:-$name} " in
			*" $name "*) printf '%s ' "$name" ;;
		esac
	done
}

# check KIND ARGUMENT...: make installcheck of one kind, its output in
# $log/KIND. A run that hangs is ended, so that its result is seen.
log=test_output
check()
{
	local kind=$1 status=0

	shift
	echo "== $kind"
	timeout --kill-after=30 1800 make --no-print-directory -s installcheck PG_CONFIG="$PG_CONFIG" \
		REGRESS= ISOLATION= TAP_TESTS= "$@" </dev/null 2>&1 | tee "$log/$kind" || status=$?
	return $status
}

# count_regress KIND STATUS: reads the report of pg_regress, whose lines are
# "test NAME ... ok" up to PostgreSQL 15 and "ok 1 - NAME" since.
count_regress()
{
	local good bad

	good=$(grep -cE '^(test .* \.\.\. ok|ok [0-9]+ )' "$log/$1" || true)
	bad=$(grep -cE '^(test .* \.\.\. FAILED|not ok [0-9]+ )' "$log/$1" || true)
	# It failed without a failed test: it never got to them.
	[ "$2" = 0 ] || [ "$bad" -gt 0 ] || bad=1
	passed=$((passed + good))
	failed=$((failed + bad))
}

# count_tap STATUS: reads the summary of prove. Each test in a file counts; a
# file that ended badly counts as one more failure if no test in it failed.
count_tap()
{
	local all bad

	all=$(sed -nE 's/^Files=[0-9]+, Tests=([0-9]+),.*/\1/p' "$log/tap")
	bad=$(sed -nE 's/^.* \(Wstat: .* Failed: ([0-9]+)\)$/\1/p' "$log/tap" |
		awk '{ sum += $1 > 0 ? $1 : 1; died += $1 == 0 } END { print sum + 0, died + 0 }')
	local died=${bad#* }
	bad=${bad% *}
	[ "$1" = 0 ] || [ "$bad" -gt 0 ] || { bad=1; died=1; }
	passed=$((passed + ${all:-0} - (bad - died)))
	failed=$((failed + bad))
}

show()
{
	if [ -s "$1" ]; then
		echo "== $1"
		tail -n "$2" "$1"
	fi
}

regress=$(select_tests sql/ .sql)
isolation=$(select_tests test/isolation/specs/ .spec)
tap=$(select_tests test/t/ .pl)
rm -rf "$log"
mkdir "$log"

if [ -n "$regress" ]; then
	status=0
	check regress REGRESS="$regress" \
		EXTRA_REGRESS_OPTS="--temp-instance=$log/regress_instance --temp-config=test/server.conf" || status=$?
	count_regress regress $status
	if [ $status != 0 ]; then
		show regression.diffs 1000
		show log/postmaster.log 60
	fi
fi

if [ -n "$isolation" ]; then
	status=0
	check isolation ISOLATION="$isolation" \
		EXTRA_REGRESS_OPTS="--temp-instance=$log/isolation_instance --temp-config=test/server.conf" || status=$?
	count_regress isolation $status
	if [ $status != 0 ]; then
		show output_iso/regression.diffs 1000
		show output_iso/log/postmaster.log 60
	fi
fi

if [ -n "$tap" ]; then
	status=0
	# shellcheck disable=SC2086
	check tap TAP_TESTS=1 PROVE_TESTS="$(printf 'test/t/%s.pl ' $tap)" JOBS="${JOBS:-}" || status=$?
	count_tap $status
	# Of each file that failed: what it said, and what its servers said.
	while read -r file; do
		show "tmp_check/log/regress_log_$file" 100
		for server_log in tmp_check/log/"$file"_*.log; do
			show "$server_log" 60
		done
	done < <(sed -nE 's,^test/t/(.*)\.pl +\(Wstat: .*,\1,p' "$log/tap")
fi

if [ $((passed + failed)) = 0 ]; then
	echo "No test was run${TESTS:+: there is none named $TESTS}" >&2
	failed=1
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
