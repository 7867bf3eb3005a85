/*
 * guc.c
 *		Defines the settings of leaf.
 *
 * Names, types, defaults and contexts are the documented interface.
 */
#include "postgres.h"

#include <limits.h>

#include "compat.h"
#include "guc.h"

#define MAX_WORKER_ID 1023

/* The year 9999: far from any overflow. */
#define MAX_EPOCH_MS INT64CONST(253402300800000)

int			leaf_guc_wait_timeout;

int			leaf_guc_max_tags;
int			leaf_guc_prefetch_threshold;
int			leaf_guc_segment_duration;
int			leaf_guc_max_step;

int			leaf_guc_worker_id_source;
int			leaf_guc_worker_id;
char	   *leaf_guc_epoch;
int64		leaf_guc_epoch_ms;
int			leaf_guc_sequence_start;
int			leaf_guc_clock_backward_limit;
int			leaf_guc_clock_drift_limit;
int			leaf_guc_time_report_interval;
int			leaf_guc_time_bound_ahead;
char	   *leaf_guc_node_address;
char	   *leaf_guc_cluster_name;
char	   *leaf_guc_peers;

char	   *leaf_guc_zookeeper_servers;
int			leaf_guc_zookeeper_session_timeout;
char	   *leaf_guc_zookeeper_auth;
char	   *leaf_guc_zookeeper_tls;
int			leaf_guc_worker_id_ttl;

/* What SHOW has of the settings that may hold a password. */
static char *shown_peers;
static char *shown_zookeeper_auth;
static char *shown_zookeeper_tls;

const struct config_enum_entry leaf_worker_id_source_options[] = {
	{"none", LEAF_SOURCE_NONE, false},
	{"static", LEAF_SOURCE_STATIC, false},
	{"hostname", LEAF_SOURCE_HOSTNAME, false},
	{"zookeeper", LEAF_SOURCE_ZOOKEEPER, false},
	{NULL, 0, false},
};

static const struct config_enum_entry sequence_start_options[] = {
	{"random", LEAF_SEQUENCE_RANDOM, false},
	{"zero", LEAF_SEQUENCE_ZERO, false},
	{NULL, 0, false},
};

/* The epoch is text because there are no bigint settings. */
static bool
parse_epoch(const char *text, int64 *ms)
{
	char	   *end;

	errno = 0;
	*ms = strtoll(text, &end, 10);
	return errno == 0 && end != text && *end == '\0' && *ms >= 0 && *ms <= MAX_EPOCH_MS;
}

static bool
check_epoch(char **newval, void **extra, GucSource source)
{
	int64		ms;

	if (parse_epoch(*newval, &ms))
		return true;
	GUC_check_errdetail("\"leaf.epoch\" must be a number of milliseconds since 1970-01-01 00:00:00 UTC, not negative and before the year 10000.");
	return false;
}

static void
assign_epoch(const char *newval, void *extra)
{
	(void) parse_epoch(newval, &leaf_guc_epoch_ms);
}

/*
 * A value with a password is shown to nobody, not even to those who may read
 * all settings: the real one goes along as the hook's extra, and what is left
 * to show are stars.
 */
static bool
hide_secret(char **newval, void **extra, bool is_secret)
{
	char	   *shown;

	*extra = leaf_guc_strdup(*newval);
	if (*extra == NULL)
		return false;
	if (!is_secret)
		return true;
	shown = leaf_guc_strdup("********");
	if (shown == NULL)
		return false;
	leaf_guc_free(*newval);
	*newval = shown;
	return true;
}

/* A conninfo's password=, or an URI's user:password@. */
static bool
check_peers(char **newval, void **extra, GucSource source)
{
	return hide_secret(newval, extra,
					   strstr(*newval, "password") != NULL ||
						   (strstr(*newval, "://") != NULL && strchr(*newval, '@') != NULL));
}

static void
assign_peers(const char *newval, void *extra)
{
	leaf_guc_peers = extra;
}

static bool
check_zookeeper_auth(char **newval, void **extra, GucSource source)
{
	return hide_secret(newval, extra, **newval != '\0');
}

static void
assign_zookeeper_auth(const char *newval, void *extra)
{
	leaf_guc_zookeeper_auth = extra;
}

/* The files are no secret; what follows them, the password, is. */
static bool
check_zookeeper_tls(char **newval, void **extra, GucSource source)
{
	int			commas = 0;

	for (const char *at = *newval; *at != '\0'; at++)
		commas += *at == ',';
	return hide_secret(newval, extra, commas > 2);
}

static void
assign_zookeeper_tls(const char *newval, void *extra)
{
	leaf_guc_zookeeper_tls = extra;
}

static void
define_secret(const char *name, const char *description, char **shown,
			  GucStringCheckHook check, GucStringAssignHook assign)
{
	DefineCustomStringVariable(name, description, NULL, shown, "",
							   PGC_POSTMASTER, GUC_SUPERUSER_ONLY,
							   check, assign, NULL);
}

static void
define_int(const char *name, const char *description, int *variable,
		   int boot, int min, int max, GucContext context, int flags)
{
	DefineCustomIntVariable(name, description, NULL, variable, boot, min, max,
							context, flags, NULL, NULL, NULL);
}

static void
define_string(const char *name, const char *description, char **variable,
			  const char *boot, int flags)
{
	DefineCustomStringVariable(name, description, NULL, variable, boot,
							   PGC_POSTMASTER, flags, NULL, NULL, NULL);
}

/*
 * Called once, from _PG_init in the postmaster.
 */
void
leaf_guc_define(void)
{
	define_int("leaf.wait_timeout",
			   "Longest time that a call waits for a segment, a worker id or the clock.",
			   &leaf_guc_wait_timeout, 5000, 0, INT_MAX, PGC_USERSET, GUC_UNIT_MS);

	define_int("leaf.max_tags",
			   "Number of tags that the server caches at once.",
			   &leaf_guc_max_tags, 4096, 1, 10 * 1000 * 1000, PGC_POSTMASTER, 0);
	define_int("leaf.prefetch_threshold",
			   "Percentage of a segment used at which the next one is fetched.",
			   &leaf_guc_prefetch_threshold, 10, 0, 100, PGC_SIGHUP, 0);
	define_int("leaf.segment_duration",
			   "Time that a segment should last; the step adapts to it. 0 turns that off.",
			   &leaf_guc_segment_duration, 15 * 60, 0, INT_MAX / 1000, PGC_SIGHUP, GUC_UNIT_S);
	define_int("leaf.max_step",
			   "Ceiling of the adapted step.",
			   &leaf_guc_max_step, 1000000, 1, INT_MAX, PGC_SIGHUP, 0);

	DefineCustomEnumVariable("leaf.worker_id_source",
							 "Where the worker id of this node comes from.",
							 NULL, &leaf_guc_worker_id_source, LEAF_SOURCE_NONE,
							 leaf_worker_id_source_options, PGC_POSTMASTER, 0,
							 NULL, NULL, NULL);
	define_int("leaf.worker_id",
			   "Worker id of this node, for leaf.worker_id_source = static.",
			   &leaf_guc_worker_id, -1, -1, MAX_WORKER_ID, PGC_POSTMASTER, 0);
	DefineCustomStringVariable("leaf.epoch",
							   "Start of snowflake time, in milliseconds since 1970.",
							   NULL, &leaf_guc_epoch, "1288834974657",
							   PGC_POSTMASTER, 0, check_epoch, assign_epoch, NULL);
	DefineCustomEnumVariable("leaf.sequence_start",
							 "First sequence of a millisecond: random in 0..99, or zero.",
							 NULL, &leaf_guc_sequence_start, LEAF_SEQUENCE_RANDOM,
							 sequence_start_options, PGC_SIGHUP, 0, NULL, NULL, NULL);
	define_int("leaf.clock_backward_limit",
			   "Largest step back of the clock that a call waits out.",
			   &leaf_guc_clock_backward_limit, 5, 0, 60 * 1000, PGC_SIGHUP, GUC_UNIT_MS);
	define_int("leaf.clock_drift_limit",
			   "Largest distance from the peers' mean time with which a new node starts.",
			   &leaf_guc_clock_drift_limit, 1000, 1, INT_MAX, PGC_SIGHUP, GUC_UNIT_MS);
	define_int("leaf.time_report_interval",
			   "Time between two reports of this node's clock.",
			   &leaf_guc_time_report_interval, 3000, 100, 3600 * 1000, PGC_SIGHUP, GUC_UNIT_MS);
	define_int("leaf.time_bound_ahead",
			   "How far ahead of the clock the durable time bound is kept.",
			   &leaf_guc_time_bound_ahead, 3000, 100, 3600 * 1000, PGC_SIGHUP, GUC_UNIT_MS);
	define_string("leaf.node_address",
				  "Name of this node in the cluster, as host:port.",
				  &leaf_guc_node_address, "", 0);
	define_string("leaf.cluster_name",
				  "Name of the cluster, as Leaf's leaf.name.",
				  &leaf_guc_cluster_name, "leaf", 0);
	define_secret("leaf.peers",
				  "Connection string that reaches the other nodes for the time check.",
				  &shown_peers, check_peers, assign_peers);

	define_string("leaf.zookeeper_servers",
				  "ZooKeeper servers, as host:port,host:port[/chroot].",
				  &leaf_guc_zookeeper_servers, "", 0);
	define_int("leaf.zookeeper_session_timeout",
			   "Session timeout asked of ZooKeeper.",
			   &leaf_guc_zookeeper_session_timeout, 10000, 1000, 3600 * 1000, PGC_POSTMASTER, GUC_UNIT_MS);
	define_secret("leaf.zookeeper_auth",
				  "Credentials for ZooKeeper, as digest:user:password.",
				  &shown_zookeeper_auth, check_zookeeper_auth, assign_zookeeper_auth);
	define_secret("leaf.zookeeper_tls",
				  "TLS to ZooKeeper, as ca-file,certificate-file,key-file[,password].",
				  &shown_zookeeper_tls, check_zookeeper_tls, assign_zookeeper_tls);
	define_int("leaf.worker_id_ttl",
			   "Time after which an unreported worker id may be taken over; 0 is never.",
			   &leaf_guc_worker_id_ttl, 0, 0, INT_MAX / 1000, PGC_POSTMASTER, GUC_UNIT_S);

	MarkGUCPrefixReserved("leaf");
}
