#!/usr/bin/env bash
#
# Installs the Debian packages that are missing, as root; as anybody else says
# which they are. Nothing that is there already is touched, and no service is
# started.
#
#	scripts/setup.sh [build] [zookeeper] [test] [format]	(default: all of them)
#
# PG_CONFIG: a PostgreSQL with its server headers that is used instead of
# Debian's, if it is there.
set -euo pipefail
cd "$(dirname "$0")/.."

server=postgresql-15
clients=test/clients
missing=()

# want PACKAGE...: packages, unless they are installed.
want()
{
	local package

	for package in "$@"; do
		[[ " ${missing[*]} " != *" $package "* ]] || continue
		if [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
			missing+=("$package")
		fi
	done
}

# want_command COMMAND PACKAGE...: packages, unless the command is there, from
# wherever it came.
want_command()
{
	command -v "$1" >/dev/null || want "${@:2}"
}

# Programs, PGXS and headers come in packages of their own, any of which may be
# there alone.
have_server()
{
	local pg_config=${PG_CONFIG:-pg_config}

	[ -x "$("$pg_config" --bindir 2>/dev/null)/postgres" ] &&
		[ -f "$("$pg_config" --pgxs)" ] && [ -f "$("$pg_config" --includedir-server)/postgres.h" ]
}

want_build()
{
	have_server || want "$server" postgresql-server-dev-15
	want gcc make libpq-dev libzookeeper-mt-dev
	want_command setpriv util-linux
	want_command ps procps
}

# What is built gets installed into the server, which is mostly root's.
check_build()
{
	local folder

	folder=$("${PG_CONFIG:-pg_config}" --pkglibdir)
	if [ ! -w "$folder" ]; then
		echo "leaf cannot be installed into $folder: run this as root, or give PG_CONFIG of a PostgreSQL of your own" >&2
		exit 1
	fi
}

want_zookeeper()
{
	want zookeeper
	want_command java default-jre-headless
}

want_test()
{
	want_zookeeper
	want libipc-run-perl faketime strace valgrind python3-psycopg2 python3-sqlalchemy
	want_command prove perl
	# What acts as a node of Leaf, and the compiler that runs it from its source.
	want libcurator-framework-java libjackson2-databind-java
	want_command javac default-jdk-headless
	# The Node client: from npm where that is in use, else from Debian.
	want_command node nodejs
	command -v npm >/dev/null || want node-pg
}

want_format()
{
	want_command clang-format-14 clang-format-14
}

install_packages()
{
	local cluster=/etc/postgresql-common/createcluster.d/leaf-setup.conf

	export DEBIAN_FRONTEND=noninteractive
	echo "Installing ${missing[*]}"
	apt-get -qq update
	case " ${missing[*]} " in
		*" $server "*)
			# Only the programs are wanted: a server that comes up on port 5432
			# by itself is not.
			apt-get -qq -y install --no-install-recommends postgresql-common </dev/null >/dev/null
			mkdir -p "${cluster%/*}"
			# shellcheck disable=SC2064
			trap "rm -f '$cluster'" EXIT
			echo 'create_main_cluster = false' >"$cluster"
			;;
	esac
	apt-get -qq -y install --no-install-recommends "${missing[@]}" </dev/null >/dev/null
}

if [ $# = 0 ]; then
	set -- build zookeeper test format
fi
for part in "$@"; do
	"want_$part"
done

if [ ${#missing[@]} -gt 0 ]; then
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		echo "These are missing; as root on Debian 12, install them with" >&2
		echo "    apt-get install --no-install-recommends ${missing[*]}" >&2
		exit 1
	fi
	install_packages
fi

case " $* " in
	*" build "*)
		check_build
		;;
esac
case " $* " in
	*" test "*)
		if [ -f $clients/package-lock.json ] && [ ! -d $clients/node_modules ] && command -v npm >/dev/null; then
			npm ci --silent --prefix $clients </dev/null
		fi
		;;
esac
