#!/usr/bin/env bash
#
# Lays out C sources as PostgreSQL does, or checks that they are.
#
#	scripts/format.sh write|check FILE...
set -euo pipefail
cd "$(dirname "$0")/.."

# Each version has its own idea of a style; Debian 12's counts.
formatter=clang-format-14

mode=$1
status=0
formatted=$(mktemp)
trap 'rm -f "$formatted"' EXIT

for file in "${@:2}"; do
	"$formatter" --style=file "$file" | perl scripts/format.pl >"$formatted"
	cmp -s "$file" "$formatted" && continue
	if [ "$mode" = write ]; then
		cat "$formatted" >"$file"
		echo "$file"
	else
		diff -u --label "$file" --label "$file, formatted" "$file" "$formatted" || status=1
	fi
done
exit $status
