/*
 * session.c
 *		An asynchronous ZooKeeper session for a single-threaded loop.
 *
 * The only file that knows the client library (libzookeeper-mt).  What it
 * shields the rest from, each of which was learned from the library's code:
 *
 *	- zookeeper_init resolves names in the caller's thread, and the library's
 *	  thread does so again at nearly every turn while it is disconnected,
 *	  spinning if that fails.  So names are resolved here, in a thread of
 *	  their own, and the library only ever sees numeric addresses.  While the
 *	  connection stays down they are resolved again; if they have changed the
 *	  handle is replaced, and the session continued.
 *	- Its threads inherit the signal mask: every signal is blocked around
 *	  their creation.
 *	- zookeeper_close waits for the server's answer if the session is up, so
 *	  on that path it runs in a thread that is waited for with a limit.
 *	- A session that expired, or whose authentication failed, is closed and
 *	  made anew; one that is merely disconnected is left to the library.  But
 *	  for a short time only: servers that have lost their data turn away
 *	  whoever has seen newer data, without ever calling the session expired,
 *	  and the library would knock for ever.
 *	- It repeats itself in the log several times a second while a server is
 *	  away: each place in its code speaks once, until the connection has come
 *	  back.
 *
 * The functions named on_... run in the library's threads and touch nothing
 * but the mailbox.
 */
#include "postgres.h"

#include <ctype.h>
#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <zookeeper/zookeeper.h>

#include "zookeeper/session.h"

#ifndef THREADED
#error "compile with -DTHREADED, or zookeeper.h is that of another library"
#endif

#define FIRST_PAUSE_MS 100
#define LONGEST_PAUSE_MS 10000

/* While disconnected, look again this often whether the names have moved. */
#define RESOLVE_AGAIN_MS 10000

/* Disconnected for this long, a session is given up for a new one. */
#define GIVE_UP_SESSION_MS 2000

/* A place in the library may speak again this long after a reconnection. */
#define LOG_QUIET_MS 60000
#define LOG_PLACES 32

#define DEFAULT_PORT "2181"

/* As configured; set once by leaf_zk_open. */
static char *hosts = NULL;		/* 'h1:2181,h2:2181' */
static char *chroot_path = NULL;
static char *credentials = NULL;	/* 'user:password', or NULL */
static char *tls_files = NULL;	/* as zookeeper_init_ssl takes them, or NULL */
static int	timeout_ms;

/*
 * Not every build of the library has TLS (Debian's has not), and its header
 * has this only with a define that no package sets; so it is looked for at
 * run time.
 */
typedef zhandle_t *(*init_ssl_fn) (const char *host, const char *cert,
								  watcher_fn watcher, int recv_timeout,
								  const clientid_t *id, void *context, int flags);
static init_ssl_fn init_ssl = NULL;

static zhandle_t *handle = NULL;
static LeafZkLink link_state = LEAF_ZK_LINK_DOWN;
static LeafZkSessionKey session_key;	/* to continue it; id 0: none */
static uint32 session_count = 0;
static char *addresses = NULL;	/* that the handle was made with; malloc'd */
static bool resolving = false;
static int64 down_since = 0;	/* monotonic ms; where a session is down */
static int64 resolve_at = 0;	/* monotonic ms */
static int	pause_ms = FIRST_PAUSE_MS;
static int64 now_ms = 0;		/* of the current step */
static const char *trouble = "its names are being resolved";

/* Answers that were taken from the mailbox and not yet pulled. */
static LeafZkReply *first_ready = NULL;
static LeafZkReply *last_ready = NULL;

/* Where the library writes what became of the parts of a multi. */
static zoo_op_result_t multi_results[LEAF_ZK_MAX_OPS];

/* The places in the library that have spoken since log_since_ms. */
static char log_places[LOG_PLACES][64];
static int	nlog_places = 0;
static int64 log_since_ms = 0;

/*
 * Start a thread that runs none of the server's signal handlers; it is never
 * joined.
 */
static bool
start_thread(void *(*body) (void *), void *arg)
{
	pthread_t	thread;
	sigset_t	all;
	sigset_t	old;
	int			rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&thread, NULL, body, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc == 0)
		pthread_detach(thread);
	return rc == 0;
}

/*
 * Split off the host and port of one server, 'host', 'host:port' or
 * '[address]:port', in place.
 */
static void
split_host(char *server, char **host, char **port)
{
	char	   *end;

	*host = server;
	*port = DEFAULT_PORT;
	if (server[0] == '[' && (end = strchr(server, ']')) != NULL)
	{
		*host = server + 1;
		*end++ = '\0';
		if (*end == ':')
			*port = end + 1;
	}
	else if ((end = strrchr(server, ':')) != NULL && end == strchr(server, ':'))
	{
		*end = '\0';
		*port = end + 1;
	}
}

/*
 * Body of the resolver: arg is a copy of hosts, which it frees.  Runs libc
 * only; vsnprintf and the like are the server's own and so not used.
 */
static void *
on_resolve(void *arg)
{
	char	   *list = arg;
	char	   *result = NULL;
	size_t		len = 0;
	char	   *rest = NULL;

	for (char *server = strtok_r(list, ",", &rest); server != NULL;
		 server = strtok_r(NULL, ",", &rest))
	{
		struct addrinfo hints;
		struct addrinfo *found = NULL;
		char	   *host;
		char	   *port;

		while (*server == ' ')
			server++;
		split_host(server, &host, &port);
		memset(&hints, 0, sizeof(hints));
		hints.ai_socktype = SOCK_STREAM;
		if (getaddrinfo(host, port, &hints, &found) != 0)
			continue;

		for (struct addrinfo *each = found; each != NULL; each = each->ai_next)
		{
			char		number[NI_MAXHOST];
			char		service[NI_MAXSERV];
			char	   *longer;

			if (getnameinfo(each->ai_addr, each->ai_addrlen, number, sizeof(number),
							service, sizeof(service),
							NI_NUMERICHOST | NI_NUMERICSERV) != 0)
				continue;
			longer = realloc(result, len + strlen(number) + strlen(service) + 3);
			if (longer == NULL)
				continue;
			result = longer;
			if (len > 0)
				result[len++] = ',';
			strcpy(result + len, number);
			len += strlen(number);
			result[len++] = ':';
			strcpy(result + len, service);
			len += strlen(service);
		}
		freeaddrinfo(found);
	}
	free(list);
	leaf_mailbox_post_resolved(result);
	return NULL;
}

static void
on_event(zhandle_t *zh, int type, int state, const char *path, void *context)
{
	if (type != ZOO_SESSION_EVENT)
		return;

	if (state == ZOO_CONNECTED_STATE)
	{
		const clientid_t *id = zoo_client_id(zh);
		LeafZkSessionKey key;

		key.id = id->client_id;
		memcpy(key.password, id->passwd, sizeof(key.password));
		leaf_mailbox_post_link(LEAF_ZK_LINK_UP, &key);
	}
	else if (state == ZOO_EXPIRED_SESSION_STATE)
		leaf_mailbox_post_link(LEAF_ZK_LINK_EXPIRED, NULL);
	else if (state == ZOO_AUTH_FAILED_STATE)
		leaf_mailbox_post_link(LEAF_ZK_LINK_AUTH_FAILED, NULL);
	else
		leaf_mailbox_post_link(LEAF_ZK_LINK_DOWN, NULL);
}

static void
on_log(const char *line)
{
	leaf_mailbox_post_line(line);
}

static LeafZkCode
translate_code(int code)
{
	switch (code)
	{
		case ZOK:
			return LEAF_ZK_OK;
		case ZNONODE:
			return LEAF_ZK_NO_NODE;
		case ZNODEEXISTS:
			return LEAF_ZK_NODE_EXISTS;
		case ZBADVERSION:
			return LEAF_ZK_BAD_VERSION;
		case ZNOAUTH:
		case ZAUTHFAILED:
			return LEAF_ZK_NO_AUTH;
		case ZCONNECTIONLOSS:
		case ZOPERATIONTIMEOUT:
		case ZSESSIONEXPIRED:
		case ZSESSIONMOVED:
		case ZCLOSING:
		case ZINVALIDSTATE:
			return LEAF_ZK_LOST;
		default:
			return LEAF_ZK_FAILED;
	}
}

static void
post_answer(LeafZkReply *reply, int code, const struct Stat *stat)
{
	if (reply == NULL)
		return;
	reply->client_code = code;
	reply->code = translate_code(code);
	if (stat != NULL)
	{
		reply->stat.created_txn = stat->czxid;
		reply->stat.ctime_ms = stat->ctime;
		reply->stat.mtime_ms = stat->mtime;
		reply->stat.ephemeral_owner = stat->ephemeralOwner;
		reply->stat.version = stat->version;
		reply->stat.child_changes = stat->cversion;
		reply->stat.children = stat->numChildren;
	}
	leaf_mailbox_post_reply(reply);
}

/* The client carries a pointer for us; it is the tag. */
#define TAG_POINTER(tag) ((const void *) (uintptr_t) (tag))
#define POINTER_TAG(data) ((uint32) (uintptr_t) (data))

static void
on_void(int rc, const void *data)
{
	post_answer(leaf_zk_reply_make(POINTER_TAG(data), NULL, 0, NULL, 0), rc, NULL);
}

static void
on_stat(int rc, const struct Stat *stat, const void *data)
{
	post_answer(leaf_zk_reply_make(POINTER_TAG(data), NULL, 0, NULL, 0), rc, stat);
}

static void
on_data(int rc, const char *value, int len, const struct Stat *stat,
		const void *data)
{
	/* A node without data has NULL and -1. */
	if (rc == ZOK && (value == NULL || len < 0))
	{
		value = "";
		len = 0;
	}
	post_answer(leaf_zk_reply_make(POINTER_TAG(data), value, len, NULL, 0), rc, stat);
}

static void
on_string(int rc, const char *value, const void *data)
{
	post_answer(leaf_zk_reply_make(POINTER_TAG(data), value,
								   value ? strlen(value) : 0, NULL, 0),
				rc, NULL);
}

static void
on_strings(int rc, const struct String_vector *strings,
		   const struct Stat *stat, const void *data)
{
	post_answer(leaf_zk_reply_make(POINTER_TAG(data), NULL, 0,
								   strings ? strings->data : NULL,
								   strings ? strings->count : 0),
				rc, stat);
}

static void *
on_close(void *arg)
{
	zookeeper_close(arg);
	leaf_mailbox_post_closed();
	return NULL;
}

/* From here on: the main thread. */

static void
add_ready(LeafZkReply *reply)
{
	reply->next = NULL;
	if (last_ready != NULL)
		last_ready->next = reply;
	else
		first_ready = reply;
	last_ready = reply;
}

/*
 * Log a line of the library, which looks like
 * '2026-01-31 00:00:00,000:123(0x7f):ZOO_WARN@function@123: text'.
 */
static void
log_line(const char *line)
{
	static const struct
	{
		const char *name;
		int			elevel;
	}			levels[] =
		{
			{"ZOO_ERROR@", WARNING},
			{"ZOO_WARN@", LOG},
			{"ZOO_INFO@", DEBUG1},
			{"ZOO_DEBUG@", DEBUG2},
		};
	const char *place = line;
	const char *text = line;
	int			elevel = DEBUG1;
	int			len;

	for (int i = 0; i < lengthof(levels); i++)
	{
		const char *at = strstr(line, levels[i].name);

		if (at != NULL)
		{
			elevel = levels[i].elevel;
			place = at;
			text = strstr(at, ": ");
			text = text ? text + 2 : at;
			break;
		}
	}

	if (elevel == LOG || elevel == WARNING)
	{
		char		key[sizeof(log_places[0])];
		int			i;

		strlcpy(key, place, Min(sizeof(key), (Size) (text - place) + 1));
		for (i = 0; i < nlog_places; i++)
		{
			if (strcmp(log_places[i], key) == 0)
				break;
		}
		if (i < nlog_places || nlog_places == LOG_PLACES)
			elevel = DEBUG1;
		else
			strlcpy(log_places[nlog_places++], key, sizeof(key));
	}

	len = strlen(text);
	while (len > 0 && isspace((unsigned char) text[len - 1]))
		len--;
	ereport(elevel, (errmsg_internal("ZooKeeper client: %.*s", len, text)));
}

static void
grow_pause(void)
{
	resolve_at = now_ms + pause_ms;
	pause_ms = Min(pause_ms * 2, LONGEST_PAUSE_MS);
}

/*
 * Close a handle whose session is not up, which does not wait for a server.
 * Its unanswered operations are answered by their absence: the callers see
 * the session's loss.
 */
static void
close_handle(void)
{
	if (handle != NULL)
		zookeeper_close(handle);
	handle = NULL;
	link_state = LEAF_ZK_LINK_DOWN;
	leaf_mailbox_forget_handle();
}

static void
open_handle(void)
{
	sigset_t	all;
	sigset_t	old;
	clientid_t	id;
	const clientid_t *resumed = session_key.id != 0 ? &id : NULL;

	memset(&id, 0, sizeof(id));
	id.client_id = session_key.id;
	memcpy(id.passwd, session_key.password, sizeof(id.passwd));

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (tls_files == NULL)
		handle = zookeeper_init2(addresses, on_event, timeout_ms, resumed, NULL,
								 ZOO_NO_LOG_CLIENTENV, on_log);
	else
	{
		/* It takes no callback, and would say to stderr that it begins. */
		zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
		handle = init_ssl(addresses, tls_files, on_event, timeout_ms, resumed, NULL,
						  ZOO_NO_LOG_CLIENTENV);
		if (handle != NULL)
			zoo_set_log_callback(handle, on_log);
		zoo_set_debug_level(ZOO_LOG_LEVEL_INFO);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);

	if (handle == NULL)
	{
		trouble = "the client could not be initialized";
		grow_pause();
		return;
	}
	trouble = "no server answers";
	resolve_at = now_ms + RESOLVE_AGAIN_MS;
	if (credentials != NULL)
		zoo_add_auth(handle, "digest", credentials, strlen(credentials),
					 NULL, NULL);
}

static void
take_link(const LeafMailboxNews *news)
{
	bool		was_up = link_state == LEAF_ZK_LINK_UP;

	link_state = news->link;
	switch (link_state)
	{
		case LEAF_ZK_LINK_UP:
			if (news->key.id != session_key.id)
				session_count++;
			session_key = news->key;
			pause_ms = FIRST_PAUSE_MS;
			trouble = "";
			if (now_ms - log_since_ms >= LOG_QUIET_MS)
			{
				log_since_ms = now_ms;
				nlog_places = 0;
			}
			break;

		case LEAF_ZK_LINK_DOWN:
			trouble = "no server answers";
			if (was_up)
			{
				down_since = now_ms;
				resolve_at = now_ms + RESOLVE_AGAIN_MS;
			}
			break;

		case LEAF_ZK_LINK_EXPIRED:
			close_handle();
			session_key.id = 0;
			trouble = "the session has expired";
			/* A new one costs the ensemble a vote, so this can't run hot. */
			resolve_at = now_ms;
			break;

		case LEAF_ZK_LINK_AUTH_FAILED:
			close_handle();
			session_key.id = 0;
			trouble = "the servers refuse the authentication";
			grow_pause();
			break;
	}
}

/*
 * The resolver has finished: make the handle, or make it anew if the
 * addresses are others than before.
 */
static void
take_addresses(char *found)
{
	resolving = false;
	if (found == NULL)
	{
		if (handle == NULL)
			trouble = "no name in \"leaf.zookeeper_servers\" could be resolved";
		grow_pause();
		return;
	}

	if (handle != NULL)
	{
		resolve_at = now_ms + RESOLVE_AGAIN_MS;
		if (link_state == LEAF_ZK_LINK_UP || strcmp(found, addresses) == 0)
		{
			free(found);
			return;
		}
		close_handle();
	}
	free(addresses);
	addresses = found;
	open_handle();
}

bool
leaf_zk_open(const char *servers, int session_timeout_ms, const char *auth,
			 const char *tls, const char **error)
{
	const char *slash = strchr(servers, '/');
	int			len = slash ? slash - servers : strlen(servers);

	if (len == 0)
	{
		*error = "\"leaf.zookeeper_servers\" names no server.";
		return false;
	}
	if (auth[0] != '\0')
	{
		const char *user = strchr(auth, ':');

		if (strncmp(auth, "digest:", 7) != 0 || strchr(user + 1, ':') == NULL)
		{
			*error = "\"leaf.zookeeper_auth\" is not of the form digest:user:password.";
			return false;
		}
		credentials = strdup(user + 1);
	}
	if (tls[0] != '\0')
	{
		init_ssl = (init_ssl_fn) dlsym(RTLD_DEFAULT, "zookeeper_init_ssl");
		if (init_ssl == NULL)
		{
			*error = "\"leaf.zookeeper_tls\" is set, but this build of libzookeeper-mt has no TLS.";
			return false;
		}
		if (strchr(tls, ',') == NULL || strchr(tls, ',') == strrchr(tls, ','))
		{
			*error = "\"leaf.zookeeper_tls\" is not of the form ca-file,certificate-file,key-file[,password].";
			return false;
		}
		tls_files = strdup(tls);
	}
	if (!leaf_mailbox_open())
	{
		*error = "The pipe of the ZooKeeper client could not be made.";
		return false;
	}

	hosts = strndup(servers, len);
	chroot_path = strdup(slash ? slash : "");
	len = strlen(chroot_path);
	while (len > 0 && chroot_path[len - 1] == '/')
		chroot_path[--len] = '\0';
	timeout_ms = session_timeout_ms;
	zoo_set_debug_level(ZOO_LOG_LEVEL_INFO);
	return true;
}

void
leaf_zk_step(int64 mono_ms)
{
	static LeafMailboxNews news;	/* large */

	now_ms = mono_ms;
	leaf_mailbox_take(&news);

	for (int i = 0; i < news.nlines; i++)
		log_line(news.lines[i]);
	if (news.lines_lost > 0)
		elog(DEBUG1, "ZooKeeper client: %d more messages", news.lines_lost);

	while (news.replies != NULL)
	{
		LeafZkReply *reply = news.replies;

		news.replies = reply->next;
		add_ready(reply);
	}
	if (news.link_changed)
		take_link(&news);
	if (news.resolved)
		take_addresses(news.addresses);

	if (handle != NULL && link_state == LEAF_ZK_LINK_DOWN &&
		session_key.id != 0 && now_ms >= down_since + GIVE_UP_SESSION_MS)
	{
		/* Whoever is back by now will not miss it. */
		close_handle();
		session_key.id = 0;
		resolve_at = now_ms;
	}

	if (!resolving && link_state != LEAF_ZK_LINK_UP && now_ms >= resolve_at)
	{
		char	   *copy = strdup(hosts);

		resolving = copy != NULL && start_thread(on_resolve, copy);
		if (!resolving)
		{
			free(copy);
			trouble = "a thread could not be started";
			grow_pause();
		}
	}
}

LeafZkReply *
leaf_zk_next(void)
{
	LeafZkReply *reply = first_ready;

	if (reply != NULL)
	{
		first_ready = reply->next;
		if (first_ready == NULL)
			last_ready = NULL;
	}
	return reply;
}

int64
leaf_zk_wake_at(void)
{
	if (link_state == LEAF_ZK_LINK_UP)
		return 0;
	if (handle != NULL && session_key.id != 0)
		return resolving ? down_since + GIVE_UP_SESSION_MS :
						   Min(resolve_at, down_since + GIVE_UP_SESSION_MS);
	return resolving ? 0 : resolve_at;
}

int
leaf_zk_fd(void)
{
	return leaf_mailbox_fd();
}

bool
leaf_zk_connected(void)
{
	return link_state == LEAF_ZK_LINK_UP;
}

uint32
leaf_zk_session_count(void)
{
	return session_count;
}

int64
leaf_zk_session_id(void)
{
	return session_key.id;
}

const char *
leaf_zk_trouble(void)
{
	return trouble;
}

const char *
leaf_zk_state_name(void)
{
	if (link_state == LEAF_ZK_LINK_UP)
		return "connected";
	return handle != NULL ? "connecting" : "disconnected";
}

const char *
leaf_zk_chroot(void)
{
	return chroot_path;
}

const char *
leaf_zk_code_text(int client_code)
{
	return zerror(client_code);
}

void
leaf_zk_close(int wait_ms)
{
	if (handle == NULL)
		return;
	if (start_thread(on_close, handle))
		leaf_mailbox_wait_closed(wait_ms);
	handle = NULL;
	link_state = LEAF_ZK_LINK_DOWN;
}

/*
 * See to it that an operation that the library did not accept is answered.
 */
static void
check_accepted(uint32 tag, int rc)
{
	if (rc != ZOK)
	{
		LeafZkReply *reply = leaf_zk_reply_make(tag, NULL, 0, NULL, 0);

		if (reply == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 errmsg("out of memory")));
		reply->client_code = rc;
		reply->code = translate_code(rc);
		add_ready(reply);
	}
}

/*
 * The ACL of the nodes that leaf makes.  Without credentials anybody may do
 * anything, as with Leaf.
 */
static const struct ACL_vector *
node_acl(void)
{
	static struct ACL acls[2];
	static struct ACL_vector vector = {2, acls};

	if (credentials == NULL)
		return &ZOO_OPEN_ACL_UNSAFE;
	acls[0].perms = ZOO_PERM_READ;
	acls[0].id = ZOO_ANYONE_ID_UNSAFE;
	acls[1].perms = ZOO_PERM_ALL;
	acls[1].id = ZOO_AUTH_IDS;
	return &vector;
}

static int
create_flags(int mode)
{
	return ((mode & LEAF_ZK_EPHEMERAL) ? ZOO_EPHEMERAL : 0) |
		((mode & LEAF_ZK_SEQUENTIAL) ? ZOO_SEQUENCE : 0);
}

#define SEND(tag, call) \
	check_accepted(tag, leaf_zk_connected() ? (call) : ZINVALIDSTATE)

void
leaf_zk_create(uint32 tag, const char *path, const char *data, int mode)
{
	SEND(tag, zoo_acreate(handle, path, data, strlen(data), node_acl(), create_flags(mode), on_string, TAG_POINTER(tag)));
}

void
leaf_zk_get(uint32 tag, const char *path)
{
	SEND(tag, zoo_aget(handle, path, 0, on_data, TAG_POINTER(tag)));
}

void
leaf_zk_set(uint32 tag, const char *path, const char *data, int32 version)
{
	SEND(tag, zoo_aset(handle, path, data, strlen(data), version, on_stat, TAG_POINTER(tag)));
}

void
leaf_zk_delete(uint32 tag, const char *path, int32 version)
{
	SEND(tag, zoo_adelete(handle, path, version, on_void, TAG_POINTER(tag)));
}

void
leaf_zk_children(uint32 tag, const char *path)
{
	SEND(tag, zoo_aget_children2(handle, path, 0, on_strings, TAG_POINTER(tag)));
}

void
leaf_zk_sync(uint32 tag, const char *path)
{
	SEND(tag, zoo_async(handle, path, on_string, TAG_POINTER(tag)));
}

void
leaf_zk_multi(uint32 tag, const LeafZkOp *ops, int nops)
{
	static zoo_op_t zoo_ops[LEAF_ZK_MAX_OPS];	/* large */

	Assert(nops <= LEAF_ZK_MAX_OPS);
	memset(multi_results, 0, sizeof(multi_results));
	for (int i = 0; i < nops; i++)
	{
		const LeafZkOp *op = &ops[i];

		switch (op->kind)
		{
			case LEAF_ZK_OP_CREATE:
				zoo_create_op_init(&zoo_ops[i], op->path, op->data,
								   strlen(op->data), node_acl(),
								   create_flags(op->mode), NULL, 0);
				break;
			case LEAF_ZK_OP_SET:
				zoo_set_op_init(&zoo_ops[i], op->path, op->data,
								strlen(op->data), op->version, NULL);
				break;
			case LEAF_ZK_OP_DELETE:
				zoo_delete_op_init(&zoo_ops[i], op->path, op->version);
				break;
			case LEAF_ZK_OP_CHECK:
				zoo_check_op_init(&zoo_ops[i], op->path, op->version);
				break;
		}
	}
	SEND(tag, zoo_amulti(handle, nops, zoo_ops, multi_results, on_void, TAG_POINTER(tag)));
}
