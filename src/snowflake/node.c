/*
 * node.c
 *		The node worker: one process, one loop, all that is slow in snowflake.
 *
 *	                    ┌────────────── source PENDING ─────────────┐
 *	                    v                                           │
 *	 (none) disabled  starting ── READY, clock right, bound ──> running
 *	                    │  ^        on disk                         │
 *	          REFUSED,  │  │ anything else                 REFUSED  │
 *	          clock     v  │                                        v
 *	                  refused <──────────────────────────────────────
 *
 * The state is not stored and stepped but found anew each turn, from the
 * clocks, the file, the source's answer and the peers' answer; so whatever
 * was wrong is over as soon as it is over.  The generator is open in running
 * and closed in every other state.
 *
 * The worker has shared memory but no database: nothing of the server waits
 * for it, and it may block in an fsync for as long as the disk likes.  It
 * leaves on SIGTERM with exit code 1, so that it is started again unless the
 * server is stopping.
 */
#include "postgres.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <math.h>
#include <net/if.h>
#include <netinet/in.h>

#include "access/xlogrecovery.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "postmaster/postmaster.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/memutils.h"

#include "alarm.h"
#include "compat.h"
#include "guc.h"
#include "snowflake/generator.h"
#include "snowflake/id.h"
#include "snowflake/node.h"
#include "snowflake/peers.h"

/* Turns while something is awaited that wakes nobody: the clock, promotion. */
#define IMPATIENT_TURN_MS 250

/* Turns of a running node that has nothing to do. */
#define IDLE_TURN_MS 60000

/* How long a node that had an address waits for one. */
#define ADDRESS_WAIT_MS 60000

/* Before a failed write of the file is tried again. */
#define WRITE_RETRY_MS 1000

/* Reports to one round of asking the peers, while all is well. */
#define REPORTS_PER_PEERS_ROUND 10

/* How long before its end the epoch raises an alarm. */
#define EPOCH_END_WARNING_MS (INT64CONST(365) * 24 * 3600 * 1000)

/* The worker's own; nothing of it is seen by another process. */
typedef struct LeafNode
{
	const LeafSourceRoutine *routine;
	LeafNodeIdentity self;
	bool		has_address;	/* one that others can reach, as it seems */
	int64		started_at_mono_ms;
	uint64		instance;
	bool		source_started;

	/* the file */
	LeafTimeBoundRead file_read;
	LeafTimeBoundFile file;
	char		file_error[LEAF_DETAIL_LEN];
	int64		write_again_mono_ms;	/* not before; after a failure */
	bool		unused;			/* no id was issued before this run */
	int64		write_took_ms;	/* the last one that succeeded */

	/* the bound */
	int64		bound_seen_last_ms; /* last id when the bound was written */
	int64		bound_wanted_ms;	/* clock of a call that waits; 0: none */
	int64		limit_ms;		/* the source's, of this turn; 0: none */

	/* the check against the peers */
	LeafClockCheck clock_check;
	bool		clock_unchecked;	/* passed for want of an answer */
	bool		peers_asked;	/* a round has ended */
	LeafPeersResult peers_result;
	int64		next_round_mono_ms;
	uint32		peers_version;
	bool		peers_changed;

	int64		next_report_mono_ms;
	int			worker_id;		/* of the last opening; -1 */
	bool		open;
	LeafNodeStatus status;		/* as of this turn */
	LeafNodeStatus published;	/* as others see it */
	int			npeers;
	LeafPeer	peers[LEAF_MAX_PEERS];
} LeafNode;

static LeafNode node;

/* pg_upgrade's servers must not draw ids, and no file would be moved. */
bool
leaf_node_wanted(void)
{
	return leaf_guc_worker_id_source != LEAF_SOURCE_NONE && !IsBinaryUpgrade &&
		IsPostmasterEnvironment;
}

void
leaf_node_install(void)
{
	BackgroundWorker worker;

	if (!leaf_node_wanted())
		return;

	memset(&worker, 0, sizeof(worker));
	strlcpy(worker.bgw_name, "leaf node", BGW_MAXLEN);
	strlcpy(worker.bgw_type, "leaf node", BGW_MAXLEN);
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS;
	/* As early as can be: a standby's own worker id needs no recovery. */
	worker.bgw_start_time = BgWorkerStart_PostmasterStart;
	worker.bgw_restart_time = 1;
	strlcpy(worker.bgw_library_name, "leaf", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "leaf_node_main", BGW_MAXLEN);
	RegisterBackgroundWorker(&worker);
}

void
leaf_source_refuse(LeafSourceResult *result, LeafRefusal refusal,
				   const char *hint, const char *detail_fmt, ...)
{
	va_list		args;

	result->state = LEAF_SOURCE_REFUSED;
	result->refusal = refusal;
	strlcpy(result->hint, hint ? hint : "", sizeof(result->hint));
	va_start(args, detail_fmt);
	vsnprintf(result->detail, sizeof(result->detail), detail_fmt, args);
	va_end(args);
}

void
leaf_source_floor_of_data(LeafSourceResult *result)
{
	TimestampTz latest = GetLatestXTime();

	if (latest == 0)
		return;
	result->floor_ms = leaf_timestamptz_to_ms(latest);
	result->patience_ms = leaf_guc_time_bound_ahead;
}

void
leaf_waits_add_fd(LeafWaits *waits, pgsocket fd, uint32 events)
{
	if (waits->nfds < LEAF_WAITS_MAX)
	{
		waits->fds[waits->nfds].fd = fd;
		waits->fds[waits->nfds].events = events;
		waits->nfds++;
	}
}

void
leaf_waits_wake_at(LeafWaits *waits, int64 mono_ms)
{
	waits->wake_at_mono_ms = Min(waits->wake_at_mono_ms, mono_ms);
}

/*
 * This node's name: the setting, or the first IPv4 address that is not a
 * loopback one, and the server's port.  False if there is none and a loopback
 * address has to do.
 */
static bool
find_node_address(char *address)
{
	char		host[INET_ADDRSTRLEN] = "127.0.0.1";
	struct ifaddrs *interfaces;
	bool		found = false;

	if (leaf_guc_node_address[0] != '\0')
	{
		if (strchr(leaf_guc_node_address, ':') != NULL)
			strlcpy(address, leaf_guc_node_address, LEAF_NODE_ADDRESS_LEN);
		else
			snprintf(address, LEAF_NODE_ADDRESS_LEN, "%s:%d", leaf_guc_node_address, PostPortNumber);
		return true;
	}

	if (getifaddrs(&interfaces) == 0)
	{
		for (struct ifaddrs *i = interfaces; i != NULL; i = i->ifa_next)
		{
			if (i->ifa_addr == NULL || i->ifa_addr->sa_family != AF_INET ||
				(i->ifa_flags & IFF_LOOPBACK) || !(i->ifa_flags & IFF_UP))
				continue;
			inet_ntop(AF_INET, &((struct sockaddr_in *) i->ifa_addr)->sin_addr,
					  host, sizeof(host));
			found = true;
			break;
		}
		freeifaddrs(interfaces);
	}
	snprintf(address, LEAF_NODE_ADDRESS_LEN, "%s:%d", host, PostPortNumber);
	return found;
}

/*
 * At boot the server may be up before the network.  A node that has another
 * name in the cluster is not to enter it anew for want of an address, so it
 * waits for one for a while.
 */
static bool
address_is_awaited(LeafClock now)
{
	if (node.has_address || node.source_started || node.routine->report == NULL)
		return false;
	node.has_address = find_node_address(node.self.node_address);
	strlcpy(node.status.node_address, node.self.node_address, sizeof(node.status.node_address));
	return !node.has_address &&
		now.mono_ms - node.started_at_mono_ms < ADDRESS_WAIT_MS &&
		node.file_read == LEAF_TIME_BOUND_READ_OK &&
		node.file.identity.source == node.self.source &&
		strcmp(node.file.identity.node_address, node.self.node_address) != 0;
}

static void
read_file(void)
{
	char	   *error;

	node.file_read = leaf_time_bound_read(&node.file, &error);
	if (node.file_read == LEAF_TIME_BOUND_READ_INVALID)
		strlcpy(node.file_error, error, sizeof(node.file_error));
	node.unused = node.file_read == LEAF_TIME_BOUND_READ_MISSING ||
		(node.file_read == LEAF_TIME_BOUND_READ_OK && node.file.unused);
}

/*
 * How far ahead of the clock the bound is to be.  A bound that the disk needs
 * longer to take than it is ahead would be past already when it is there.
 * Nor may it be past the source's limit: if we get stuck, the bound is what
 * ends a lease.
 */
static int64
bound_ahead_ms(LeafClock now)
{
	int64		ahead_ms = Max(leaf_guc_time_bound_ahead, 2 * node.write_took_ms);

	if (node.limit_ms != 0)
		ahead_ms = Min(ahead_ms, Max(node.limit_ms - now.wall_ms, 0));
	return ahead_ms;
}

/*
 * Put a bound on disk, for that worker id.  A failure is an alarm until a
 * write succeeds, and keeps further ones away for a while.
 */
static bool
write_file(LeafClock now, int worker_id, int64 bound_ms, bool clean)
{
	LeafTimeBoundFile file;
	char	   *error;

	if (now.mono_ms < node.write_again_mono_ms && !clean)
		return false;

	memset(&file, 0, sizeof(file));
	file.identity = node.self;
	file.worker_id = worker_id;
	file.clean = clean;
	file.unused = clean && node.unused;
	file.instance = node.instance;
	file.bound_ms = bound_ms;
	file.written_at_ms = now.wall_ms;

	if (!leaf_time_bound_write(&file, &error))
	{
		node.write_again_mono_ms = now.mono_ms + WRITE_RETRY_MS;
		strlcpy(node.status.bound_error, error, sizeof(node.status.bound_error));
		leaf_alarm_raise(LEAF_ALARM_TIME_BOUND, error,
						 "Make room and restore write access in the data directory; ids stop at the bound that is on disk.");
		return false;
	}
	node.file = file;
	node.file_read = LEAF_TIME_BOUND_READ_OK;
	node.write_again_mono_ms = 0;
	node.write_took_ms = leaf_clock_mono_ms() - now.mono_ms;
	node.status.bound_error[0] = '\0';
	leaf_alarm_clear(LEAF_ALARM_TIME_BOUND);
	return true;
}

/*
 * The mean of the peers' clocks minus ours, from the source's reports where
 * leaf.peers is not set; false if there is none (yet).
 */
static bool
peers_offset(double *offset_ms)
{
	double		sum = 0;
	int			n = 0;

	if (leaf_peers_configured())
	{
		if (!node.peers_asked || node.peers_result.answered == 0)
			return false;
		*offset_ms = node.peers_result.mean_offset_ms;
		return true;
	}

	for (int i = 0; i < node.npeers; i++)
	{
		const LeafPeer *peer = &node.peers[i];

		if (peer->is_self || !peer->alive || !peer->offset_known)
			continue;
		sum += peer->offset_ms;
		n++;
	}
	if (n == 0)
		return false;
	*offset_ms = sum / n;
	return true;
}

/* Copy the peers for the view. */
static void
publish_peers(void)
{
	int			count = 0;

	if (node.routine->peers != NULL)
		count = node.routine->peers(node.peers);
	else
	{
		LeafPeer   *self = &node.peers[count++];

		memset(self, 0, sizeof(*self));
		strlcpy(self->node_address, node.self.node_address, sizeof(self->node_address));
		self->worker_id = node.worker_id;
		self->last_report_ms = node.status.last_report_ms;
		self->alive = true;
		self->is_self = true;
		self->offset_known = true;
		count += leaf_peers_rows(&node.peers[count]);
	}

	node.npeers = count;
	leaf_node_publish_peers(node.peers, count);
}

/*
 * What the round that has just ended gives cause to worry about.  A peer with
 * our worker id is not refused: which of the two is wrong is not ours to say.
 */
static void
update_peers_alarm(int worker_id)
{
	char		message[LEAF_ALARM_TEXT_LEN];
	int			count;

	if (node.peers_result.answered == 0 && node.peers_result.asked > 0)
	{
		snprintf(message, sizeof(message), "none of %d peers answered: %s",
				 node.peers_result.asked, node.peers_result.error);
		leaf_alarm_raise(LEAF_ALARM_PEERS, message,
						 "The clock is not compared with anybody's; check leaf.peers and the peers' pg_hba.conf.");
		return;
	}

	count = leaf_peers_rows(node.peers);
	for (int i = 0; i < count; i++)
	{
		if (worker_id < 0 || node.peers[i].worker_id != worker_id)
			continue;
		snprintf(message, sizeof(message), "\"%.150s\" has the worker id of this node, %d",
				 node.peers[i].node_address, worker_id);
		leaf_alarm_raise(LEAF_ALARM_PEERS, message,
						 "Stop one of the two: they can issue the same ids.");
		return;
	}

	if (node.peers_result.asked == 0 && node.peers_result.error[0] != '\0')
	{
		leaf_alarm_raise(LEAF_ALARM_PEERS, node.peers_result.error,
						 "The clock is not compared with anybody's; check the host in leaf.peers.");
		return;
	}
	leaf_alarm_clear(LEAF_ALARM_PEERS);
}

/*
 * Ask the peers where that is due, and keep node.clock_check and the offset
 * in the status.
 */
static void
check_peers(LeafClock now, const LeafSourceResult *result)
{
	bool		wanted = result->state == LEAF_SOURCE_CHECK_CLOCK;
	bool		checked = false;
	double		offset_ms = 0;

	if (leaf_peers_configured())
	{
		if ((wanted || node.open) && now.mono_ms >= node.next_round_mono_ms)
		{
			leaf_peers_begin(now.mono_ms);
			node.next_round_mono_ms = now.mono_ms +
				(int64) leaf_guc_time_report_interval * (wanted ? 1 : REPORTS_PER_PEERS_ROUND);
		}
		if (leaf_peers_step(now.mono_ms, &node.peers_result))
		{
			node.peers_asked = true;
			node.peers_changed = true;
			checked = true;
			update_peers_alarm(result->worker_id);
		}
	}
	else
		checked = node.routine->peers_known == NULL || node.routine->peers_known();

	node.status.offset_known = peers_offset(&offset_ms);
	node.status.clock_offset_ms = 0 - offset_ms;

	if (wanted && checked)
	{
		if (!node.status.offset_known)
		{
			node.clock_unchecked = leaf_peers_configured();
			node.clock_check = LEAF_CLOCK_PASSED;
		}
		else
		{
			node.clock_unchecked = false;
			node.clock_check = fabs(offset_ms) <= leaf_guc_clock_drift_limit ?
				LEAF_CLOCK_PASSED :
				LEAF_CLOCK_FAILED;
		}
	}
}

/*
 * What the source has to say in this turn, or what stands before it.
 */
static void
ask_source(LeafClock now, const LeafGeneratorStatus *generator, LeafSourceResult *result)
{
	LeafSourceInput input;

	memset(result, 0, sizeof(*result));
	result->worker_id = -1;

	/* An open generator's file was written by ourselves. */
	if (node.file_read == LEAF_TIME_BOUND_READ_INVALID)
		read_file();
	if (node.file_read == LEAF_TIME_BOUND_READ_INVALID)
	{
		leaf_source_refuse(result, LEAF_REFUSAL_STATE_FILE_INVALID,
						   "Restore the file from where it was last good; or, only if the clock is right and past every id that this node has made, remove it.",
						   "%s", node.file_error);
		return;
	}

	if (address_is_awaited(now))
	{
		result->state = LEAF_SOURCE_PENDING;
		snprintf(result->detail, sizeof(result->detail),
				 "No network interface is up, and this node is \"%s\" in its cluster; \"leaf.node_address\" would say so.",
				 node.file.identity.node_address);
		return;
	}

	memset(&input, 0, sizeof(input));
	input.now = now;
	input.self = &node.self;
	if (node.file_read == LEAF_TIME_BOUND_READ_OK)
	{
		input.file = &node.file;
		input.file_is_ours = leaf_time_bound_is_ours(&node.file, &node.self);
	}
	input.instance = node.instance;
	input.clock_check = node.clock_check;
	input.running = node.open;
	input.worker_id = node.worker_id;
	input.last_issued_ms = generator->last_issued_ms;

	if (!node.source_started)
	{
		node.source_started = true;
		if (node.routine->start != NULL)
			node.routine->start(&input);
	}
	node.routine->step(&input, result);

	if (result->peers_version != node.peers_version)
	{
		node.peers_version = result->peers_version;
		node.peers_changed = true;
	}
}

static void
set_state(LeafNodeState state, LeafRefusal refusal, const char *detail, const char *hint)
{
	node.status.state = state;
	node.status.refusal = refusal;
	strlcpy(node.status.detail, detail ? detail : "", sizeof(node.status.detail));
	strlcpy(node.status.hint, hint ? hint : "", sizeof(node.status.hint));
}

static const char *
format_ms(int64 ms)
{
	return timestamptz_to_str(leaf_ms_to_timestamptz(ms));
}

/*
 * The source's id may be used: see whether the clock allows it, put a bound
 * on disk, and open.
 */
static void
try_to_open(LeafClock now, const LeafSourceResult *result)
{
	const int64 limit_ms = leaf_guc_clock_backward_limit;
	LeafStartVerdict verdict;
	LeafGeneratorStatus generator;
	int64		floor_ms = result->floor_ms;
	int64		bound_ms;
	int64		issued_ms;
	int64		file_floor_ms = 0;
	int64		reported_ms = 0;
	int64		patience_ms = 0;
	LeafTimeBoundFile file_before = node.file;
	bool		ignored;
	bool		other_epoch = false;
	char		detail[LEAF_DETAIL_LEN];

	verdict = leaf_start_verdict(now.wall_ms, result->floor_ms,
								 result->floor_ms - result->patience_ms,
								 result->patience_ms, limit_ms);

	/*
	 * What was issued since the server started is in shared memory, to the
	 * millisecond, and so may be what was issued before a crash; else that is
	 * below the file's bound.
	 */
	if (node.file_read == LEAF_TIME_BOUND_READ_OK)
		file_floor_ms = leaf_time_bound_floor(&node.file, &node.self, result->worker_id);
	leaf_generator_resume(file_floor_ms > 0 ? &node.file : NULL);
	leaf_generator_get_status(&generator);
	issued_ms = generator.last_issued_ms;
	if (file_floor_ms > 0 && node.worker_id < 0)
	{
		reported_ms = node.file.written_at_ms;
		patience_ms = Max(node.file.bound_ms - reported_ms, leaf_guc_time_bound_ahead);
		other_epoch = node.file.identity.epoch_ms != node.self.epoch_ms;
		if (issued_ms == 0)
			issued_ms = file_floor_ms - 1;	/* the bound itself is free */
	}
	if (issued_ms > 0)
	{
		verdict = Max(verdict,
					  leaf_start_verdict(now.wall_ms, issued_ms, reported_ms,
										 patience_ms, limit_ms));
		floor_ms = Max(floor_ms, issued_ms);
	}

	if (verdict == LEAF_START_CLOCK_BEHIND)
	{
		int64		right_ms = Max(floor_ms, reported_ms);

		if (other_epoch && floor_ms > now.wall_ms)
		{
			snprintf(detail, sizeof(detail),
					 "leaf.epoch was %lld when this node last issued ids; with %lld, ids would repeat until %s.",
					 (long long) node.file.identity.epoch_ms,
					 (long long) node.self.epoch_ms, format_ms(floor_ms));
			set_state(LEAF_NODE_REFUSED, LEAF_REFUSAL_STATE_FILE_INVALID, detail,
					  "Set leaf.epoch back and restart the server, or give the node a worker id that never issued ids with either epoch.");
		}
		else
		{
			snprintf(detail, sizeof(detail),
					 "The clock is %lld ms behind the time up to which ids may exist, %s.",
					 (long long) (right_ms - now.wall_ms), format_ms(right_ms));
			set_state(LEAF_NODE_REFUSED, LEAF_REFUSAL_CLOCK_BEHIND, detail,
					  "Set the clock right, or wait until it has reached that time; the node then starts by itself.");
		}
		return;
	}

	if (verdict == LEAF_START_WAIT)
	{
		snprintf(detail, sizeof(detail),
				 "Ids may exist up to %s; the node starts when the clock is past that.",
				 format_ms(floor_ms));
		set_state(LEAF_NODE_STARTING, LEAF_REFUSAL_NONE, detail, NULL);
		return;
	}

	/* Whatever the limit, the file covers what was issued. */
	bound_ms = now.wall_ms + bound_ahead_ms(now);
	if (result->limit_ms != 0)
		bound_ms = Max(Min(bound_ms, result->limit_ms), floor_ms + 1);

	ignored = node.file_read == LEAF_TIME_BOUND_READ_OK && file_floor_ms == 0;
	if (!write_file(now, result->worker_id, bound_ms, false))
	{
		set_state(LEAF_NODE_STARTING, LEAF_REFUSAL_NONE, node.status.bound_error, NULL);
		return;
	}

	if (ignored)
		ereport(LOG,
				(errmsg("leaf node ignores the state file of another node"),
				 errdetail("It was of \"%s\" with worker id %d.",
						   file_before.identity.node_address, file_before.worker_id)));

	if (node.clock_unchecked)
		ereport(LOG,
				(errmsg("leaf node starts with its clock unchecked: no peer answered")));
	node.clock_unchecked = false;

	leaf_generator_open(result->worker_id, node.instance, floor_ms, node.file.bound_ms);
	leaf_generator_get_status(&generator);
	node.open = true;
	node.worker_id = result->worker_id;
	node.bound_seen_last_ms = generator.last_issued_ms;
	node.bound_wanted_ms = 0;
	node.next_report_mono_ms = now.mono_ms;
	node.peers_changed = true;
	set_state(LEAF_NODE_RUNNING, LEAF_REFUSAL_NONE, NULL, NULL);
}

/*
 * Keep the bound on disk ahead of the clock while ids are asked for.
 *
 * It is raised when half of what it was ahead is gone, so that a slow fsync
 * has the other half.  A server that issues nothing lets it pass: its next
 * call asks for it, and waits for that one write.
 */
static void
keep_bound(LeafClock now, const LeafGeneratorStatus *generator)
{
	bool		used = generator->last_issued_ms != node.bound_seen_last_ms;
	int64		wanted_ms = leaf_generator_take_request();
	int64		ahead_ms;
	int64		bound_ms;

	/* A request outlives a write that fails. */
	if (wanted_ms != 0)
		node.bound_wanted_ms = wanted_ms;
	else if (!used && node.bound_wanted_ms == 0)
		return;

	/* The clock may have moved since: what the call saw is what it needs. */
	now.wall_ms = Max(now.wall_ms, node.bound_wanted_ms);
	ahead_ms = bound_ahead_ms(now);
	bound_ms = now.wall_ms + ahead_ms;
	if (node.limit_ms != 0)
		bound_ms = Min(bound_ms, node.limit_ms);

	if (bound_ms > generator->bound_ms &&
		bound_ms - generator->bound_ms >= ahead_ms / 2)
	{
		if (!write_file(now, node.worker_id, bound_ms, false))
			return;
		node.bound_seen_last_ms = generator->last_issued_ms;
		leaf_generator_raise_bound(bound_ms);
	}
	else if (node.bound_wanted_ms >= generator->bound_ms)
	{
		/* The limit is in the way, which moves on with the next report. */
		node.next_report_mono_ms = now.mono_ms;
		return;
	}
	else if (wanted_ms != 0)
		leaf_generator_wake_waiters();	/* it was raised meanwhile */
	node.bound_wanted_ms = 0;
}

/* When keep_bound has to look again by itself. */
static void
bound_waits(LeafWaits *waits, LeafClock now, int64 bound_ms)
{
	const int64 ahead_ms = bound_ahead_ms(now);
	int64		left_ms = bound_ms - now.wall_ms;

	if (left_ms > ahead_ms / 2)
		leaf_waits_wake_at(waits, now.mono_ms + left_ms - ahead_ms / 2);
	else if (left_ms > 0)
		leaf_waits_wake_at(waits, now.mono_ms + Max(ahead_ms / 8, 10));
	if (node.write_again_mono_ms > now.mono_ms)
		leaf_waits_wake_at(waits, node.write_again_mono_ms);
}

static void
raise_or_clear(LeafAlarm alarm, const char *message, const char *hint)
{
	if (message[0] != '\0')
		leaf_alarm_raise(alarm, message, hint);
	else
		leaf_alarm_clear(alarm);
}

/*
 * The alarms about the state and the clock as this turn has found them.
 */
static void
update_alarms(LeafClock now, const LeafSourceResult *result, const LeafGeneratorStatus *generator)
{
	char		message[LEAF_ALARM_TEXT_LEN] = "";
	const char *hint = node.status.hint[0] ? node.status.hint : NULL;
	int64		behind_ms = generator->last_issued_ms - now.wall_ms;
	int64		end_ms = node.self.epoch_ms + LEAF_ID_MAX_TIME;

	/* A standby that refuses because it is one has nothing wrong with it. */
	if (node.status.state == LEAF_NODE_REFUSED &&
		node.status.refusal != LEAF_REFUSAL_IN_RECOVERY)
		snprintf(message, sizeof(message), "refused: %s: %s",
				 leaf_refusal_name(node.status.refusal), node.status.detail);
	raise_or_clear(LEAF_ALARM_NODE, message, hint);

	message[0] = '\0';
	if (node.open && behind_ms > leaf_guc_clock_backward_limit)
	{
		snprintf(message, sizeof(message), "clock moved back by %lld ms; no ids until %s",
				 (long long) behind_ms, format_ms(generator->last_issued_ms));
		hint = "Set the clock right, or wait until it has caught up.";
	}
	else if (node.status.offset_known &&
			 fabs(node.status.clock_offset_ms) > leaf_guc_clock_drift_limit)
	{
		snprintf(message, sizeof(message), "clock is %+.0f ms away from the peers' mean",
				 node.status.clock_offset_ms);
		hint = "Set the clock of this node or of its peers right.";
	}
	else if (result->clock_warning[0] != '\0')
	{
		strlcpy(message, result->clock_warning, sizeof(message));
		hint = "Set the clock right.";
	}
	raise_or_clear(LEAF_ALARM_CLOCK, message, hint);

	message[0] = '\0';
	if (now.wall_ms > end_ms - EPOCH_END_WARNING_MS)
		snprintf(message, sizeof(message), "the 41 bits of time end at %s", format_ms(end_ms));
	raise_or_clear(LEAF_ALARM_EPOCH_END, message,
				   "Plan another key: no id can be made after that.");
}

/*
 * Let everybody see the status, if it changed.
 */
static void
publish_status(void)
{
	bool		was_refused;
	bool		moved;

	if (memcmp(&node.published, &node.status, sizeof(node.status)) == 0)
		return;

	was_refused = node.published.state == LEAF_NODE_REFUSED;
	moved = node.published.state != node.status.state ||
		node.published.refusal != node.status.refusal;
	node.published = node.status;
	leaf_node_publish_status(&node.status);

	if (moved)
	{
		/* That it is refused is logged as an alarm, but not a change of why. */
		if (node.status.state == LEAF_NODE_RUNNING)
			ereport(LOG,
					(errmsg("leaf node is running with worker id %d", node.worker_id)));
		else if (was_refused && node.status.state == LEAF_NODE_REFUSED)
			ereport(LOG,
					(errmsg("leaf node is refused for another reason: %s: %s",
							leaf_refusal_name(node.status.refusal), node.status.detail)));
		leaf_generator_wake_waiters();
	}
}

/*
 * One turn: look, act, and say what to sleep on.
 */
static void
take_turn(LeafWaits *waits)
{
	LeafClock	now = leaf_clock_read();
	LeafGeneratorStatus generator;
	LeafSourceResult result;
	LeafClockCheck told;
	bool		usable;
	bool		calm;

	leaf_generator_get_status(&generator);
	told = node.clock_check;
	ask_source(now, &generator, &result);

	/* A comparison is good for the start that it was made for. */
	if (node.open || result.state == LEAF_SOURCE_PENDING || result.state == LEAF_SOURCE_REFUSED)
		node.clock_check = LEAF_CLOCK_UNCHECKED;
	if (node.peers_changed)
	{
		/* The check looks at what is published. */
		node.peers_changed = false;
		publish_peers();
	}
	check_peers(now, &result);

	usable = result.state == LEAF_SOURCE_READY;
	node.limit_ms = result.limit_ms;
	if (node.open && (!usable || result.worker_id != node.worker_id))
	{
		leaf_generator_close();
		node.open = false;
		leaf_generator_get_status(&generator);
	}

	if (usable && node.open)
		keep_bound(now, &generator);
	else if (usable)
		try_to_open(now, &result);
	else if (result.state == LEAF_SOURCE_REFUSED)
		set_state(LEAF_NODE_REFUSED, result.refusal, result.detail, result.hint);
	else if (result.state == LEAF_SOURCE_CHECK_CLOCK && node.clock_check == LEAF_CLOCK_FAILED)
	{
		char		detail[LEAF_DETAIL_LEN];

		snprintf(detail, sizeof(detail),
				 "The clock is %+.0f ms away from the peers' mean, and leaf.clock_drift_limit is %d ms.",
				 node.status.clock_offset_ms, leaf_guc_clock_drift_limit);
		set_state(LEAF_NODE_REFUSED, LEAF_REFUSAL_CLOCK_SKEWED, detail,
				  "Set the clock right; the node then starts by itself.");
	}
	else if (result.refusal != LEAF_REFUSAL_NONE)
		set_state(LEAF_NODE_REFUSED, result.refusal, result.detail, result.hint);
	else
		set_state(LEAF_NODE_STARTING, LEAF_REFUSAL_NONE,
				  result.state == LEAF_SOURCE_CHECK_CLOCK ?
					  "The clock is being compared with the peers'." :
					  result.detail,
				  NULL);

	if (node.open && now.mono_ms >= node.next_report_mono_ms)
	{
		node.next_report_mono_ms = now.mono_ms + leaf_guc_time_report_interval;
		if (node.routine->report != NULL)
		{
			leaf_generator_get_status(&generator);
			node.routine->report(Max(leaf_clock_wall_ms(), generator.last_issued_ms));
		}
	}

	node.status.worker_id = node.open ? node.worker_id : result.worker_id;
	strlcpy(node.status.source_state, result.source_state, sizeof(node.status.source_state));

	/* Without a cluster to report to, the file is the report. */
	if (node.routine->report != NULL)
		node.status.last_report_ms = result.last_report_ms;
	else if (node.file_read == LEAF_TIME_BOUND_READ_OK && node.file.instance == node.instance)
		node.status.last_report_ms = node.file.written_at_ms;

	update_alarms(now, &result, &generator);
	publish_status();
	if (node.peers_changed)
	{
		node.peers_changed = false;
		publish_peers();
	}

	/* And what to wake for. */
	calm = node.open && generator.last_issued_ms <= now.wall_ms;
	leaf_waits_wake_at(waits, now.mono_ms + (calm ? IDLE_TURN_MS : IMPATIENT_TURN_MS));
	if (node.open)
	{
		leaf_generator_get_status(&generator);
		bound_waits(waits, now, generator.bound_ms);
		if (node.routine->report != NULL)
			leaf_waits_wake_at(waits, node.next_report_mono_ms);
		if (leaf_peers_configured())
			leaf_waits_wake_at(waits, node.next_round_mono_ms);
	}
	/* The source has yet to hear of it; from then on it wakes itself. */
	if (node.clock_check == LEAF_CLOCK_PASSED && told != LEAF_CLOCK_PASSED)
		leaf_waits_wake_at(waits, now.mono_ms);
	if (leaf_peers_configured())
		leaf_peers_waits(waits);
	if (node.source_started && node.routine->waits != NULL)
		node.routine->waits(waits);
}

static void
sleep_on(const LeafWaits *waits)
{
	static uint32 wait_event = 0;
	WaitEventSet *set;
	WaitEvent	event;
	int64		timeout_ms = waits->wake_at_mono_ms - leaf_clock_mono_ms();

	if (wait_event == 0)
		wait_event = leaf_wait_event_new("LeafNodeMain");

	/*
	 * The descriptors differ from turn to turn, and none can be taken out of
	 * a set.
	 */
	set = leaf_create_wait_event_set(waits->nfds + 2);
	AddWaitEventToSet(set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	for (int i = 0; i < waits->nfds; i++)
		AddWaitEventToSet(set, waits->fds[i].events, waits->fds[i].fd, NULL, NULL);
	(void) WaitEventSetWait(set, Max(timeout_ms, 0), &event, 1, wait_event);
	FreeWaitEventSet(set);
	ResetLatch(MyLatch);
}

/*
 * Close, and leave a file that the next start does not have to wait for.
 */
static void
stop(void)
{
	LeafGeneratorStatus generator;
	bool		was_open = node.open;

	leaf_generator_close();
	node.open = false;
	leaf_generator_get_status(&generator);

	if (node.source_started && node.routine->stop != NULL)
		node.routine->stop(generator.last_issued_ms);
	if (was_open)
	{
		/* A node that has issued nothing still is a new one. */
		node.unused &= !generator.issued;
		if (write_file(leaf_clock_read(), node.worker_id, generator.last_issued_ms + 1, true))
			leaf_generator_settle();
	}

	set_state(LEAF_NODE_STARTING, LEAF_REFUSAL_NONE, "The node worker has been told to stop.", NULL);
	publish_status();
}

void
leaf_node_main(Datum arg)
{
	static const LeafSourceRoutine *const routines[] = {
		[LEAF_SOURCE_STATIC] = &leaf_source_static,
		[LEAF_SOURCE_HOSTNAME] = &leaf_source_hostname,
		[LEAF_SOURCE_ZOOKEEPER] = &leaf_source_zookeeper,
	};
	MemoryContext turn_context;

	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();

	/* An earlier worker of this server may have died with the gate open. */
	leaf_generator_close();

	turn_context = AllocSetContextCreate(TopMemoryContext, "leaf node turn",
										 ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(turn_context);

	node.routine = routines[leaf_guc_worker_id_source];
	node.self.source = leaf_guc_worker_id_source;
	node.self.epoch_ms = leaf_guc_epoch_ms;
	strlcpy(node.self.cluster_name, leaf_guc_cluster_name, sizeof(node.self.cluster_name));
	node.has_address = find_node_address(node.self.node_address);
	node.started_at_mono_ms = leaf_clock_mono_ms();
	if (!pg_strong_random(&node.instance, sizeof(node.instance)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate a random number")));
	node.worker_id = -1;
	node.status.state = LEAF_NODE_STARTING;
	node.status.worker_id = -1;
	strlcpy(node.status.node_address, node.self.node_address, sizeof(node.status.node_address));
	node.peers_changed = true;
	read_file();

	leaf_node_attach();

	while (!ShutdownRequestPending)
	{
		LeafWaits	waits;

		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}

		waits.nfds = 0;
		waits.wake_at_mono_ms = PG_INT64_MAX;
		take_turn(&waits);
		MemoryContextReset(turn_context);
		sleep_on(&waits);
	}

	stop();
	proc_exit(1);
}
