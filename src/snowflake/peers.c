/*
 * peers.c
 *		Asks the other nodes for their time over libpq (leaf.peers).
 *
 * A round: the host names go to a thread (getaddrinfo blocks as long as the
 * name servers like), and come back as addresses; every address gets a
 * connection of its own; each connection is driven by whatever its socket
 * has for it; the round ends when all have answered or failed, or at its
 * deadline.  Half the round trip of the question is added to the answer.
 * Ourselves, and a server that answered on another address already, are told
 * by when their postmaster started.
 *
 * The thread touches nothing but the Resolver that it was given, under its
 * mutex, and its pipe; it runs with every signal blocked and calls no
 * PostgreSQL code.  If it hangs, rounds fail until it is done: there is never
 * a second one.
 */
#include "postgres.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "access/xlog.h"
#include "libpq-fe.h"
#include "postmaster/postmaster.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "guc.h"
#include "snowflake/peers.h"

#define ADDRESS_LEN 64

/*
 * The time, who it is, and in which schema the extension is, if it is.  What
 * it is asked for does not depend on anybody's search_path.
 */
#define TIME_QUERY \
	"SELECT EXTRACT(EPOCH FROM pg_catalog.clock_timestamp()), " \
	"EXTRACT(EPOCH FROM pg_catalog.pg_postmaster_start_time()), " \
	"(pg_catalog.pg_control_system()).system_identifier, " \
	"(SELECT pg_catalog.quote_ident(n.nspname) FROM pg_catalog.pg_extension e, pg_catalog.pg_namespace n " \
	"WHERE n.oid OPERATOR(pg_catalog.=) e.extnamespace AND e.extname OPERATOR(pg_catalog.=) 'leaf')"

/* For the view only; needs pg_monitor there, and is done without otherwise. */
#define NODE_QUERY \
	"SELECT node_address, worker_id, EXTRACT(EPOCH FROM last_report_at) " \
	"FROM %s.leaf_snowflake_status WHERE state OPERATOR(pg_catalog.=) 'running'"

/* One address to ask. */
typedef struct Address
{
	int			host_index;		/* which of the setting's hosts */
	char		text[ADDRESS_LEN];	/* numeric */
} Address;

/* The thread's; everything but wake_fd is guarded by the mutex. */
typedef struct Resolver
{
	pthread_mutex_t mutex;
	bool		busy;			/* there is a thread */
	bool		done;			/* and it has left its addresses here */
	int			nhosts;
	char	   *hosts[LEAF_PEERS_ASKED_MAX];	/* malloc'd */
	int			naddresses;
	Address		addresses[LEAF_PEERS_ASKED_MAX];
	char		error[LEAF_DETAIL_LEN];
	int			wake_fd[2];		/* a pipe; the thread writes, we read */
} Resolver;

typedef enum CallState
{
	CALL_CONNECTING,
	CALL_ASKING_TIME,
	CALL_ASKING_NODE,
	CALL_ANSWERED,
	CALL_FAILED,
	CALL_OURSELVES,				/* or somebody who has answered before */
} CallState;

/* One peer in a round. */
typedef struct Call
{
	CallState	state;
	PGconn	   *conn;
	uint32		wait_for;		/* WL_SOCKET_* */
	int64		asked_mono_us;
	double		offset_ms;
	char		identity[ADDRESS_LEN];	/* of the server that answered */
	char		schema[2 * NAMEDATALEN + 3];	/* of the extension there; "" */
	LeafPeer	row;
} Call;

static Resolver resolver = {.mutex = PTHREAD_MUTEX_INITIALIZER, .wake_fd = {-1, -1}};

/* The round; all below is the main thread's. */
static bool under_way = false;
static bool resolving = false;
static int64 deadline_mono_ms;
static PQconninfoOption *options = NULL;
static char **hosts;			/* as in the setting */
static char **ports;
static int	nhosts;
static int	nports;
static int	ncalls;
static Call calls[LEAF_PEERS_ASKED_MAX];
static char round_error[LEAF_DETAIL_LEN];

static int	nrows = 0;
static LeafPeer rows[LEAF_PEERS_ASKED_MAX];

/* µs, finer than the rest of snowflake needs. */
static int64
clock_us(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (int64) ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

bool
leaf_peers_configured(void)
{
	return leaf_guc_peers[0] != '\0';
}

static void
note_error(const char *error)
{
	char	   *newline;

	strlcpy(round_error, error, sizeof(round_error));
	newline = strchr(round_error, '\n');
	if (newline != NULL)
		*newline = '\0';
}

/* The thread. */
static void *
resolve(void *arg)
{
	Resolver   *r = arg;
	int			naddresses = 0;
	Address		addresses[LEAF_PEERS_ASKED_MAX];
	char		error[LEAF_DETAIL_LEN] = "";
	char		byte = 0;

	/* Nobody else touches the hosts while we are busy. */
	for (int i = 0; i < r->nhosts; i++)
	{
		struct addrinfo hints;
		struct addrinfo *found;
		int			rc;

		memset(&hints, 0, sizeof(hints));
		hints.ai_family = AF_UNSPEC;
		hints.ai_socktype = SOCK_STREAM;
		rc = getaddrinfo(r->hosts[i], NULL, &hints, &found);
		if (rc != 0)
		{
			strlcpy(error, gai_strerror(rc), sizeof(error));
			continue;
		}
		for (struct addrinfo *a = found; a != NULL && naddresses < LEAF_PEERS_ASKED_MAX; a = a->ai_next)
		{
			if (getnameinfo(a->ai_addr, a->ai_addrlen, addresses[naddresses].text, ADDRESS_LEN,
							NULL, 0, NI_NUMERICHOST) == 0)
				addresses[naddresses++].host_index = i;
		}
		freeaddrinfo(found);
	}

	pthread_mutex_lock(&r->mutex);
	r->naddresses = naddresses;
	memcpy(r->addresses, addresses, sizeof(Address) * naddresses);
	memcpy(r->error, error, sizeof(error));
	r->done = true;
	r->busy = false;
	pthread_mutex_unlock(&r->mutex);

	if (write(r->wake_fd[1], &byte, 1) < 0)
	{
		/* Full: it has been told already. */
	}
	return NULL;
}

/*
 * Hand the hosts to a thread of their own; false if that is not possible now.
 */
static bool
begin_resolving(void)
{
	pthread_t	thread;
	sigset_t	all;
	sigset_t	old;
	char		drain[16];
	bool		busy;
	int			rc;

	pthread_mutex_lock(&resolver.mutex);
	busy = resolver.busy;
	pthread_mutex_unlock(&resolver.mutex);
	if (busy)
	{
		note_error("The names of leaf.peers are still being resolved.");
		return false;
	}

	if (resolver.wake_fd[0] < 0)
	{
		if (pipe(resolver.wake_fd) != 0)
		{
			note_error("A pipe could not be created.");
			return false;
		}
		for (int i = 0; i < 2; i++)
			(void) fcntl(resolver.wake_fd[i], F_SETFL, O_NONBLOCK);
	}

	/* What the last thread wrote. */
	while (read(resolver.wake_fd[0], drain, sizeof(drain)) > 0)
		;

	for (int i = 0; i < resolver.nhosts; i++)
		free(resolver.hosts[i]);
	resolver.nhosts = Min(nhosts, LEAF_PEERS_ASKED_MAX);
	for (int i = 0; i < resolver.nhosts; i++)
		resolver.hosts[i] = strdup(hosts[i]);
	resolver.done = false;
	resolver.busy = true;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&thread, NULL, resolve, &resolver);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc != 0)
	{
		resolver.busy = false;
		note_error("A thread could not be created.");
		return false;
	}
	pthread_detach(thread);
	return true;
}

/* Split a comma-separated list; kept for good.  NULL has no elements. */
static int
split_list(const char *text, char ***elements)
{
	int			n = 0;
	int			room = 1;

	if (text == NULL)
		return 0;
	for (const char *c = text; *c; c++)
		room += *c == ',';
	*elements = MemoryContextAlloc(TopMemoryContext, room * sizeof(char *));
	for (;;)
	{
		size_t		len = strcspn(text, ",");

		(*elements)[n] = MemoryContextAllocZero(TopMemoryContext, len + 1);
		memcpy((*elements)[n++], text, len);
		if (text[len] == '\0')
			return n;
		text += len + 1;
	}
}

/* Read the setting, once: it cannot change while the server runs. */
static bool
parse_setting(void)
{
	const char *host = NULL;
	const char *hostaddr = NULL;
	const char *port = NULL;
	char	   *error = NULL;

	if (options != NULL)
		return true;

	options = PQconninfoParse(leaf_guc_peers, &error);
	if (options == NULL)
	{
		note_error(error ? error : "Out of memory.");
		PQfreemem(error);
		return false;
	}
	for (PQconninfoOption *o = options; o->keyword != NULL; o++)
	{
		if (strcmp(o->keyword, "host") == 0)
			host = o->val;
		else if (strcmp(o->keyword, "hostaddr") == 0)
			hostaddr = o->val;
		else if (strcmp(o->keyword, "port") == 0)
			port = o->val;
	}
	nhosts = split_list(hostaddr ? hostaddr : host, &hosts);
	nports = split_list(port, &ports);

	for (int i = 0; i < nhosts; i++)
	{
		/* A socket's folder is this host's, and no name. */
		if (hosts[i][0] == '/' || hosts[i][0] == '@' || hosts[i][0] == '\0')
			nhosts = 0;
	}
	if (nhosts == 0)
	{
		note_error("leaf.peers must name the peers' hosts.");
		PQconninfoFree(options);
		options = NULL;
		return false;
	}
	return true;
}

void
leaf_peers_begin(int64 now_mono_ms)
{
	if (under_way)
		return;

	under_way = true;
	deadline_mono_ms = now_mono_ms + LEAF_PEERS_ROUND_MS;
	ncalls = 0;
	round_error[0] = '\0';
	resolving = parse_setting() && begin_resolving();
}

static void
hang_up(Call *call, CallState state)
{
	if (state == CALL_FAILED && call->conn != NULL)
		note_error(PQerrorMessage(call->conn));
	PQfinish(call->conn);
	call->conn = NULL;
	call->state = state;
}

/*
 * Whether that is an address of this host and the port of this server: then
 * it is known to be ourselves without asking, be it that nobody may log in
 * here yet.
 */
static bool
is_own_address(const char *address, const char *port)
{
	struct ifaddrs *interfaces;
	bool		own = false;

	if (atoi(port) != PostPortNumber || getifaddrs(&interfaces) != 0)
		return false;
	for (struct ifaddrs *i = interfaces; i != NULL && !own; i = i->ifa_next)
	{
		char		text[ADDRESS_LEN];
		int			family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;

		if (family == AF_INET || family == AF_INET6)
			own = getnameinfo(i->ifa_addr,
							  family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6),
							  text, sizeof(text), NULL, 0, NI_NUMERICHOST) == 0 &&
				strcmp(text, address) == 0;
	}
	freeifaddrs(interfaces);
	return own;
}

/* What a peer says besides is for its own log; libpq would fill ours. */
static void
ignore_notice(void *arg, const PGresult *res)
{
}

static void
begin_call(Call *call, const Address *address)
{
	const char *keywords[64];
	const char *values[64];
	const char *port = NULL;
	int			n = 0;

	if (nports > 0)
		port = ports[Min(address->host_index, nports - 1)];

	memset(call, 0, sizeof(*call));
	call->row.worker_id = -1;
	snprintf(call->row.node_address, sizeof(call->row.node_address),
			 strchr(address->text, ':') ? "[%s]:%s" : "%s:%s",
			 address->text, port && port[0] ? port : DEF_PGPORT_STR);

	call->state = CALL_OURSELVES;
	if (is_own_address(address->text, port && port[0] ? port : DEF_PGPORT_STR))
		return;
	for (const Call *earlier = calls; earlier < call; earlier++)
	{
		if (strcmp(earlier->row.node_address, call->row.node_address) == 0)
			return;
	}

	/* What comes later in the list wins. */
	keywords[n] = "gssencmode"; /* its library asks name servers */
	values[n++] = "disable";
	keywords[n] = "application_name";
	values[n++] = "leaf node";
	for (PQconninfoOption *o = options; o->keyword != NULL && n < lengthof(keywords) - 4; o++)
	{
		if (o->val == NULL || strcmp(o->keyword, "host") == 0 ||
			strcmp(o->keyword, "hostaddr") == 0 || strcmp(o->keyword, "port") == 0)
			continue;
		keywords[n] = o->keyword;
		values[n++] = o->val;
	}

	/* The name for certificates and passwords, the address to connect to. */
	keywords[n] = "host";
	values[n++] = hosts[address->host_index];
	keywords[n] = "hostaddr";
	values[n++] = address->text;
	if (port != NULL)
	{
		keywords[n] = "port";
		values[n++] = port;
	}
	keywords[n] = NULL;
	values[n] = NULL;

	call->state = CALL_CONNECTING;
	call->wait_for = WL_SOCKET_WRITEABLE;
	call->conn = PQconnectStartParams(keywords, values, 0);
	PQsetNoticeReceiver(call->conn, ignore_notice, NULL);
	if (call->conn == NULL || PQstatus(call->conn) == CONNECTION_BAD)
		hang_up(call, CALL_FAILED);
}

static void
ask(Call *call, const char *query, CallState state)
{
	call->state = state;
	call->wait_for = WL_SOCKET_READABLE;
	if (PQsetnonblocking(call->conn, 1) != 0 || !PQsendQuery(call->conn, query))
		hang_up(call, CALL_FAILED);
}

/* Seconds since 1970 as a decimal, to µs. */
static int64
parse_epoch_us(const char *text)
{
	return (int64) (strtod(text, NULL) * 1e6 + 0.5);
}

static bool
heard_already(const Call *call)
{
	char		ourselves[ADDRESS_LEN];
	int64		started_us = PgStartTime +
		(POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;

	snprintf(ourselves, sizeof(ourselves), "%lld.%06lld " UINT64_FORMAT,
			 (long long) (started_us / 1000000), (long long) (started_us % 1000000),
			 GetSystemIdentifier());
	if (strcmp(call->identity, ourselves) == 0)
		return true;

	for (int i = 0; i < ncalls; i++)
	{
		if (&calls[i] != call && strcmp(calls[i].identity, call->identity) == 0)
			return true;
	}
	return false;
}

static void
take_time(Call *call, PGresult *res)
{
	int64		wall_us = clock_us(CLOCK_REALTIME);
	int64		round_trip_us = clock_us(CLOCK_MONOTONIC) - call->asked_mono_us;
	int64		peer_us = parse_epoch_us(PQgetvalue(res, 0, 0));

	call->offset_ms = (peer_us + round_trip_us / 2 - wall_us) / 1000.0;
	call->row.alive = true;
	call->row.offset_known = true;
	call->row.offset_ms = call->offset_ms;
	snprintf(call->identity, sizeof(call->identity), "%s %s",
			 PQgetvalue(res, 0, 1), PQgetvalue(res, 0, 2));

	if (heard_already(call))
	{
		call->identity[0] = '\0';
		hang_up(call, CALL_OURSELVES);
	}
	else if (!PQgetisnull(res, 0, 3))
		strlcpy(call->schema, PQgetvalue(res, 0, 3), sizeof(call->schema));
}

static void
take_node(Call *call, PGresult *res)
{
	if (PQresultStatus(res) == PGRES_TUPLES_OK && PQntuples(res) == 1 && PQnfields(res) == 3)
	{
		if (!PQgetisnull(res, 0, 0))
			strlcpy(call->row.node_address, PQgetvalue(res, 0, 0), sizeof(call->row.node_address));
		if (!PQgetisnull(res, 0, 1))
			call->row.worker_id = atoi(PQgetvalue(res, 0, 1));
		if (!PQgetisnull(res, 0, 2))
			call->row.last_report_ms = parse_epoch_us(PQgetvalue(res, 0, 2)) / 1000;
	}
}

/* All of an answer is in. */
static void
end_answer(Call *call)
{
	char		query[512];

	if (call->state == CALL_ASKING_NODE || call->schema[0] == '\0')
	{
		hang_up(call, call->row.alive ? CALL_ANSWERED : CALL_FAILED);
		return;
	}
	snprintf(query, sizeof(query), NODE_QUERY, call->schema);
	ask(call, query, CALL_ASKING_NODE);
}

static bool
is_ready(const Call *call)
{
	struct pollfd p;

	p.fd = PQsocket(call->conn);
	p.events = (call->wait_for & WL_SOCKET_WRITEABLE) ? POLLOUT : POLLIN;
	p.revents = 0;
	return p.fd >= 0 && poll(&p, 1, 0) != 0;
}

static void
step_call(Call *call)
{
	if (call->conn == NULL || !is_ready(call))
		return;

	if (call->state == CALL_CONNECTING)
	{
		switch (PQconnectPoll(call->conn))
		{
			case PGRES_POLLING_READING:
				call->wait_for = WL_SOCKET_READABLE;
				break;
			case PGRES_POLLING_WRITING:
				call->wait_for = WL_SOCKET_WRITEABLE;
				break;
			case PGRES_POLLING_OK:
				call->asked_mono_us = clock_us(CLOCK_MONOTONIC);
				ask(call, TIME_QUERY, CALL_ASKING_TIME);
				break;
			default:
				hang_up(call, CALL_FAILED);
				break;
		}
		return;
	}

	if (!PQconsumeInput(call->conn))
	{
		hang_up(call, CALL_FAILED);
		return;
	}
	while (call->conn != NULL && !PQisBusy(call->conn))
	{
		PGresult   *res = PQgetResult(call->conn);

		if (res == NULL)
		{
			end_answer(call);
			break;
		}
		if (call->state == CALL_ASKING_NODE)
			take_node(call, res);
		else if (PQresultStatus(res) == PGRES_TUPLES_OK && PQntuples(res) == 1 && PQnfields(res) == 4)
			take_time(call, res);
		PQclear(res);
	}
}

static void
take_addresses(void)
{
	bool		done;

	pthread_mutex_lock(&resolver.mutex);
	done = resolver.done;
	pthread_mutex_unlock(&resolver.mutex);
	if (!done)
		return;

	resolving = false;
	resolver.done = false;
	if (resolver.error[0] != '\0')
		note_error(resolver.error);
	ncalls = resolver.naddresses;
	for (int i = 0; i < ncalls; i++)
		begin_call(&calls[i], &resolver.addresses[i]);
}

static void
end_round(LeafPeersResult *result)
{
	double		sum = 0;

	memset(result, 0, sizeof(*result));
	nrows = 0;
	for (int i = 0; i < ncalls; i++)
	{
		Call	   *call = &calls[i];

		if (call->state == CALL_ASKING_NODE)
			hang_up(call, CALL_ANSWERED);	/* we have its time */
		else if (call->conn != NULL)
		{
			hang_up(call, CALL_FAILED);
			if (round_error[0] == '\0')
				note_error("A peer did not answer in time.");
		}

		if (call->state == CALL_OURSELVES)
			continue;
		result->asked++;
		rows[nrows++] = call->row;
		if (call->state == CALL_ANSWERED)
		{
			result->answered++;
			sum += call->offset_ms;
		}
	}
	if (result->answered > 0)
		result->mean_offset_ms = sum / result->answered;
	if (ncalls == 0 && round_error[0] == '\0')
		note_error("The names of leaf.peers were not resolved in time.");
	strlcpy(result->error, round_error, sizeof(result->error));
	under_way = false;
	resolving = false;
}

bool
leaf_peers_step(int64 now_mono_ms, LeafPeersResult *result)
{
	bool		open = false;

	if (!under_way)
		return false;

	if (resolving)
		take_addresses();
	for (int i = 0; i < ncalls; i++)
	{
		step_call(&calls[i]);
		open = open || calls[i].conn != NULL;
	}
	if ((open || resolving) && now_mono_ms < deadline_mono_ms)
		return false;

	end_round(result);
	return true;
}

void
leaf_peers_waits(LeafWaits *waits)
{
	if (!under_way)
		return;

	leaf_waits_wake_at(waits, deadline_mono_ms);
	if (resolving)
		leaf_waits_add_fd(waits, resolver.wake_fd[0], WL_SOCKET_READABLE);
	for (int i = 0; i < ncalls; i++)
	{
		if (calls[i].conn != NULL)
			leaf_waits_add_fd(waits, PQsocket(calls[i].conn), calls[i].wait_for);
	}
}

int
leaf_peers_rows(LeafPeer *into)
{
	memcpy(into, rows, sizeof(LeafPeer) * nrows);
	return nrows;
}
