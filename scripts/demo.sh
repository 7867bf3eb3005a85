#!/usr/bin/env bash
#
# Shows leaf on a throwaway server, of its own folder and socket: no port is
# opened for it, and a PostgreSQL that runs here is not disturbed. It is stopped
# and removed at the end, however that comes.
#
# PG_CONFIG: which PostgreSQL. KEEP=1: leave it running and say how to connect.
# ZOOKEEPER=1: show two servers that get their worker ids from a ZooKeeper.
set -euo pipefail

bindir=$("${PG_CONFIG:-pg_config}" --bindir)
dir=$(mktemp -d /tmp/leaf-demo.XXXXXX)
servers=()
zookeeper=
zookeeper_port=
kept=

# PostgreSQL refuses root.
if [ "$(id -u)" = 0 ]; then
	chown postgres: "$dir"
	user=postgres
	as_user() { setpriv --reuid=postgres --regid=postgres --init-groups env HOME="$dir" "$@"; }
else
	user=$(id -un)
	as_user() { "$@"; }
fi
cd "$dir"

clean_up()
{
	local server

	[ -z "$kept" ] || return 0
	for server in "${servers[@]}"; do
		as_user "$bindir/pg_ctl" -s -D "$dir/$server" -m fast stop || true
	done
	[ -z "$zookeeper" ] || kill "$zookeeper" 2>/dev/null || true
	rm -rf "$dir"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

say()
{
	printf '\n=== %s\n\n' "$*"
}

# start_server NAME PORT SETTING...: the port is only part of the socket's name.
start_server()
{
	local name=$1 port=$2

	as_user "$bindir/initdb" -D "$dir/$name" -U postgres -A trust --no-sync --encoding=UTF8 --locale=C >"$dir/$name.initdb" ||
		{ cat "$dir/$name.initdb"; return 1; }
	printf '%s\n' "listen_addresses = ''" "port = $port" "unix_socket_directories = '$dir'" \
		"shared_preload_libraries = 'leaf'" "${@:3}" >>"$dir/$name/postgresql.conf"
	if ! as_user "$bindir/pg_ctl" -s -w -D "$dir/$name" -l "$dir/$name.log" start; then
		cat "$dir/$name.log"
		return 1
	fi
	servers+=("$name")
}

# sql PORT: runs the statements on stdin and shows them.
sql()
{
	"$bindir/psql" -X -q -a -v ON_ERROR_STOP=1 -P pager=off -h "$dir" -p "$1" -U postgres -d postgres
}

# ask PORT QUERY: only its answer.
ask()
{
	"$bindir/psql" -X -A -t -h "$dir" -p "$1" -U postgres -d postgres -c "$2"
}

# bench OPTION...: pgbench on the first server.
bench()
{
	"$bindir/pgbench" -n -h "$dir" -p 5432 -U postgres "$@" postgres
}

show_segment()
{
	say 'A tag is a row, and an id a DEFAULT'
	sql 5432 <<-'SQL'
		CREATE EXTENSION leaf;
		INSERT INTO leaf_alloc (biz_tag, step, description) VALUES ('orders', 1000, 'order numbers');
		CREATE TABLE orders (
		    id   bigint PRIMARY KEY DEFAULT leaf_segment_nextval('orders'),
		    item text NOT NULL
		);
		INSERT INTO orders (item) VALUES ('tea'), ('cake'), ('milk') RETURNING id, item;
	SQL

	say 'Eight clients insert 8000 rows'
	echo "INSERT INTO orders (item) VALUES ('pgbench ' || :client_id);" >"$dir/insert.sql"
	bench -c 8 -j 2 -t 1000 -M prepared -f "$dir/insert.sql"
	sql 5432 <<-'SQL'
		SELECT count(*), count(DISTINCT id) AS different, min(id), max(id) FROM orders;
		SELECT * FROM orders ORDER BY id DESC LIMIT 5;
	SQL

	say "pgbench's TPC-B, on tables whose keys come from leaf"
	sql 5432 <<-'SQL'
		INSERT INTO leaf_alloc (biz_tag) VALUES ('branches'), ('tellers'), ('accounts'), ('history');
		CREATE TABLE pgbench_branches (
		    bid      bigint PRIMARY KEY DEFAULT leaf_segment_nextval('branches'),
		    bbalance int NOT NULL DEFAULT 0
		);
		CREATE TABLE pgbench_tellers (
		    tid      bigint PRIMARY KEY DEFAULT leaf_segment_nextval('tellers'),
		    bid      bigint NOT NULL,
		    tbalance int NOT NULL DEFAULT 0
		);
		CREATE TABLE pgbench_accounts (
		    aid      bigint PRIMARY KEY DEFAULT leaf_segment_nextval('accounts'),
		    bid      bigint NOT NULL,
		    abalance int NOT NULL DEFAULT 0
		);
		CREATE TABLE pgbench_history (
		    id    bigint PRIMARY KEY DEFAULT leaf_segment_nextval('history'),
		    tid   bigint,
		    bid   bigint,
		    aid   bigint,
		    delta int,
		    mtime timestamp
		);
		INSERT INTO pgbench_branches DEFAULT VALUES;
		INSERT INTO pgbench_tellers (bid) SELECT 1 FROM generate_series(1, 10);
		INSERT INTO pgbench_accounts (bid) SELECT 1 FROM generate_series(1, 100000);
		ANALYZE;
	SQL
	bench -c 8 -j 2 -T 5 -b tpcb-like
	sql 5432 <<-'SQL'
		SELECT count(*) AS transactions, count(DISTINCT id) AS different_ids, sum(delta) AS paid,
		       (SELECT sum(abalance) FROM pgbench_accounts) AS booked
		FROM pgbench_history;
		SELECT * FROM pgbench_history ORDER BY id DESC LIMIT 5;
	SQL

	say 'What the server has in hand'
	sql 5432 <<-'SQL'
		SELECT biz_tag, next_id, segment_end, next_segment_start, next_segment_end, base_step, step, ids_issued, refills, waits
		FROM leaf_segment_status ORDER BY biz_tag;
		SELECT biz_tag, max_id, step, update_time FROM leaf_alloc ORDER BY biz_tag;
	SQL
}

show_snowflake()
{
	say 'Snowflake ids, side by side with segment ids'
	sql 5432 <<-'SQL'
		CREATE TABLE events (
		    id     bigint PRIMARY KEY DEFAULT leaf_snowflake_nextval(),
		    number bigint NOT NULL DEFAULT leaf_segment_nextval('orders'),
		    what   text NOT NULL
		);
		INSERT INTO events (what) SELECT 'event ' || n FROM generate_series(1, 5) n;
		SELECT id, number, generated_at, worker_id, sequence
		FROM events, leaf_snowflake_parse(id) ORDER BY id;
		SELECT count(*) AS made_in_the_last_minute
		FROM events WHERE id >= leaf_snowflake_floor(now() - interval '1 minute');
		SELECT state, worker_id, worker_id_source, epoch, last_id_at, time_bound, ids_issued FROM leaf_snowflake_status;
	SQL
}

# free_port: a TCP port of the loopback interface that nobody listens on.
free_port()
{
	local port

	while :; do
		port=$((20000 + RANDOM % 10000))
		(: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
	done
	echo "$port"
}

java=(java -Xmx128m -cp /etc/zookeeper/conf:/usr/share/java/zookeeper.jar)

start_zookeeper()
{
	zookeeper_port=$(free_port)
	as_user mkdir "$dir/zookeeper"
	printf '%s\n' tickTime=2000 "dataDir=$dir/zookeeper" "clientPort=$zookeeper_port" \
		clientPortAddress=127.0.0.1 admin.enableServer=false >"$dir/zoo.cfg"
	# In a session of its own, so that Ctrl-C leaves its end to clean_up.
	# shellcheck disable=SC2016
	as_user setsid sh -c 'echo $$ >"$0/zookeeper.pid"; exec "$@"' "$dir" \
		"${java[@]}" org.apache.zookeeper.server.quorum.QuorumPeerMain "$dir/zoo.cfg" \
		</dev/null >"$dir/zookeeper.log" 2>&1 &
	until [ -s "$dir/zookeeper.pid" ]; do
		sleep 0.1
	done
	zookeeper=$(cat "$dir/zookeeper.pid")
	until (: <"/dev/tcp/127.0.0.1/$zookeeper_port") 2>/dev/null; do
		kill -0 "$zookeeper" 2>/dev/null || { cat "$dir/zookeeper.log"; return 1; }
		sleep 0.1
	done
}

show_cluster()
{
	local port

	say 'A ZooKeeper, and two servers that get their worker ids from it'
	start_zookeeper
	for port in 5001 5002; do
		start_server "node$port" "$port" "leaf.worker_id_source = zookeeper" \
			"leaf.zookeeper_servers = '127.0.0.1:$zookeeper_port'" "leaf.node_address = '127.0.0.1:$port'"
	done
	for port in 5001 5002; do
		say "Server 127.0.0.1:$port"
		sql "$port" <<-'SQL'
			CREATE EXTENSION leaf;
			CREATE TABLE events (id bigint PRIMARY KEY DEFAULT leaf_snowflake_nextval(), what text NOT NULL);
			INSERT INTO events (what) VALUES ('one'), ('two'), ('three');
			SELECT what, id, generated_at, worker_id, sequence FROM events, leaf_snowflake_parse(id) ORDER BY id;
			SELECT state, worker_id, node_address, cluster_name, zookeeper_state FROM leaf_snowflake_status;
		SQL
	done

	say 'The cluster, as a server sees it after some reports'
	for _ in {1..100}; do
		[ "$(ask 5001 'SELECT count(*) FROM leaf_snowflake_peers WHERE alive')" != 2 ] || break
		sleep 0.1
	done
	sql 5001 <<-'SQL'
		SELECT * FROM leaf_snowflake_peers ORDER BY node_address;
	SQL

	say 'And as ZooKeeper has it'
	"${java[@]}" org.apache.zookeeper.ZooKeeperMain -server "127.0.0.1:$zookeeper_port" ls -R /snowflake </dev/null 2>&1 | grep '^/snowflake'
}

if [ -n "${ZOOKEEPER:-}" ]; then
	show_cluster
else
	start_server main 5432 "leaf.worker_id_source = static" "leaf.worker_id = 1"
	show_segment
	show_snowflake
fi

if [ -n "${KEEP:-}" ]; then
	kept=1
	run=
	[ "$user" = "$(id -un)" ] || run="runuser -u $user -- "
	say 'Left running'
	for server in "${servers[@]}"; do
		echo "connect:  $bindir/psql -h $dir -p $(sed -n 's/^port = //p' "$dir/$server/postgresql.conf") -U postgres"
	done
	echo "stop:     for s in ${servers[*]}; do $run$bindir/pg_ctl -D $dir/\$s stop; done;${zookeeper:+ kill $zookeeper;} rm -rf $dir"
fi
