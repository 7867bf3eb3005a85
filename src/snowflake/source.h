/*
 * source.h
 *		The interface between the node worker and a source of worker ids.
 *
 * A source (static, hostname, zookeeper) is one file that exports one
 * LeafSourceRoutine.  The node worker is a single process with a single loop
 * (node.c).  Each turn it calls step() with all that a source may need to
 * know, gets back what the source thinks, acts on it, asks the source with
 * waits() for what to be woken by, and sleeps.  A source therefore never
 * sleeps, blocks or loops itself, and keeps what it is doing in static
 * variables of its own file.
 *
 * What a source decides: the worker id, whether this node is new in the
 * cluster, above which time it begins, and whether the id may (still) be
 * used.  What it does not decide: the clock.  The loop compares the clock
 * with the source's floor and with the time bound file, has the peers' check
 * made for a new node, keeps the durable time bound and opens and closes the
 * generator.  Nothing is issued before READY was returned and nothing after
 * anything else was returned: the loop closes the generator in that same
 * turn, and a backend cannot finish an id with a closed generator.
 *
 *	   PENDING ──> CHECK_CLOCK ──> READY ──> (REFUSED | PENDING) ──> READY …
 *
 * Any state may follow any other; REFUSED is left by itself, as soon as
 * step() returns something else.
 *
 * All of it runs in the worker's main thread, outside a transaction, and
 * only this process calls it.  A source's own threads never enter here: they
 * leave word in a mailbox of the source and write to a pipe whose other end
 * the source hands to waits().  An error that is thrown ends the worker, which
 * is started again after a second: for programming errors only.
 */
#ifndef LEAF_SNOWFLAKE_SOURCE_H
#define LEAF_SNOWFLAKE_SOURCE_H

#include "postgres.h"

#include "snowflake/clock.h"
#include "snowflake/time_bound.h"

#define LEAF_MAX_WORKER_ID 1023

#define LEAF_DETAIL_LEN 256
#define LEAF_SOURCE_STATE_LEN 64

/* Why a node refuses; leaf_snowflake_status.reason has these names. */
typedef enum LeafRefusal
{
	LEAF_REFUSAL_NONE,
	LEAF_REFUSAL_CLOCK_BEHIND,	/* the loop's: floor or file ahead of us */
	LEAF_REFUSAL_CLOCK_SKEWED,	/* the loop's: away from the peers' mean */
	LEAF_REFUSAL_NO_WORKER_ID,
	LEAF_REFUSAL_WORKER_ID_OUT_OF_RANGE,
	LEAF_REFUSAL_DUPLICATE_NODE,
	LEAF_REFUSAL_BAD_HOSTNAME,
	LEAF_REFUSAL_STATE_FILE_INVALID,	/* the loop's */
	LEAF_REFUSAL_IN_RECOVERY,
	LEAF_REFUSAL_FENCED,
} LeafRefusal;

/* The answer to a source's CHECK_CLOCK. */
typedef enum LeafClockCheck
{
	LEAF_CLOCK_UNCHECKED,		/* not asked for, or not known yet */
	LEAF_CLOCK_PASSED,			/* near the peers' mean, or nobody to ask */
	LEAF_CLOCK_FAILED,			/* clock_skewed; checked again every while */
} LeafClockCheck;

/* What a turn of the loop knows; all of it is the caller's. */
typedef struct LeafSourceInput
{
	LeafClock	now;
	const LeafNodeIdentity *self;	/* source, cluster, address, epoch */

	/*
	 * The time bound file as it was when the worker started, or as this
	 * worker wrote it since; NULL if there is none.  file_is_ours: its
	 * identity is this node's, so that its worker id is ours also when the
	 * source can't be asked (weak dependency).  file->instance names the run
	 * that wrote it, instance is this run's.
	 */
	const LeafTimeBoundFile *file;
	bool		file_is_ours;
	uint64		instance;

	LeafClockCheck clock_check; /* the answer to LEAF_SOURCE_CHECK_CLOCK */
	bool		running;		/* ids are being issued with worker_id below */
	int			worker_id;		/* -1: none so far in this run */
	int64		last_issued_ms; /* no id lies above this time; 0: none yet */
} LeafSourceInput;

typedef enum LeafSourceState
{
	/* Not known yet; calls wait.  With no id in hand for long: REFUSED. */
	LEAF_SOURCE_PENDING,

	/*
	 * This node is new in the cluster: go on only once input->clock_check is
	 * LEAF_CLOCK_PASSED.  Returned before anything is used up for ever.  With a
	 * refusal set, that is what is shown meanwhile.
	 */
	LEAF_SOURCE_CHECK_CLOCK,

	/* worker_id may be used from now on, above floor_ms. */
	LEAF_SOURCE_READY,

	/* No id must be issued: refusal, detail and hint say why. */
	LEAF_SOURCE_REFUSED,
} LeafSourceState;

/*
 * What a source answers.  The loop hands in a struct of zeros (worker_id
 * -1), so a source sets only what it means.
 */
typedef struct LeafSourceResult
{
	LeafSourceState state;
	int			worker_id;

	/*
	 * The last time that this worker id is known to have been used or
	 * reported, by whichever owner, in ms since 1970; 0 if nothing is known.
	 * The loop issues only above it, and refuses with clock_behind while the
	 * clock is behind it by more than it can wait.  To be returned with every
	 * READY until input->running; ignored after that.
	 */
	int64		floor_ms;

	/*
	 * How far the clock may be behind floor_ms and still be waited for, in
	 * state starting, instead of being refused; besides
	 * leaf.clock_backward_limit.
	 */
	int64		patience_ms;

	/*
	 * READY for a time only, whatever becomes of this process: ids stay below
	 * this time, ms since 1970; 0 is no limit.
	 */
	int64		limit_ms;

	LeafRefusal refusal;		/* REFUSED, CHECK_CLOCK */
	char		detail[LEAF_DETAIL_LEN];	/* a sentence; "" is none */
	char		hint[LEAF_DETAIL_LEN];

	/*
	 * A clock that is suspicious but no reason to refuse (a lone first node
	 * far from the ensemble's clock): raised as the clock alarm while set.
	 */
	char		clock_warning[LEAF_DETAIL_LEN];

	/* For the views. */
	char		source_state[LEAF_SOURCE_STATE_LEN];	/* zookeeper_state */
	int64		last_report_ms; /* last confirmed report; 0: none */
	uint32		peers_version;	/* changes when peers() has news */
} LeafSourceResult;

/* One row of leaf_snowflake_peers. */
typedef struct LeafPeer
{
	char		node_address[LEAF_NODE_ADDRESS_LEN];
	int			worker_id;		/* -1: unknown */
	int64		last_report_ms; /* ms since 1970; 0: unknown */
	bool		alive;
	bool		is_self;
	bool		offset_known;
	double		offset_ms;		/* that node's clock minus ours */
} LeafPeer;

#define LEAF_MAX_PEERS (LEAF_MAX_WORKER_ID + 1)

/*
 * What the loop sleeps on besides its latch: descriptors, and a time.
 * leaf_waits_add_fd takes WL_SOCKET_READABLE and/or WL_SOCKET_WRITEABLE; a
 * pipe counts as a socket.  leaf_waits_wake_at takes monotonic ms; the
 * earliest of all wins.  No descriptor is told to have fired: the next turn
 * calls step(), which looks for itself (and drains its pipe).
 */
#define LEAF_WAITS_MAX 160

typedef struct LeafWaits
{
	int			nfds;
	struct
	{
		pgsocket	fd;
		uint32		events;
	}			fds[LEAF_WAITS_MAX];
	int64		wake_at_mono_ms;
} LeafWaits;

extern void leaf_waits_add_fd(LeafWaits *waits, pgsocket fd, uint32 events);
extern void leaf_waits_wake_at(LeafWaits *waits, int64 mono_ms);

/*
 * A source.  All but start and step may be NULL.
 */
typedef struct LeafSourceRoutine
{
	/* The text for worker_id_source in the view. */
	const char *name;

	/* Once, before the first step. */
	void		(*start) (const LeafSourceInput *input);

	/* Every turn: look at what has come in, send what is due, answer. */
	void		(*step) (const LeafSourceInput *input, LeafSourceResult *result);

	/*
	 * Every leaf.time_report_interval while running: tell the cluster this
	 * time.  It is never below an id that was issued before the call.
	 */
	void		(*report) (int64 time_ms);

	/*
	 * The nodes of the cluster as last seen, ourselves among them; returns
	 * how many.  At most LEAF_MAX_PEERS rows.  The offsets of those alive are
	 * the peers' mean where leaf.peers is not set.
	 */
	int			(*peers) (LeafPeer *rows);

	/*
	 * Whether peers() is complete enough to answer CHECK_CLOCK: every peer
	 * that is going to have an offset has it (no peers at all: true).
	 */
	bool		(*peers_known) (void);

	/* Before sleeping: what wakes this source.  */
	void		(*waits) (LeafWaits *waits);

	/*
	 * On SIGTERM, with the generator closed; last_issued_ms as in the input.
	 * Must not block; the process ends after it.
	 */
	void		(*stop) (int64 last_issued_ms);
} LeafSourceRoutine;

extern const LeafSourceRoutine leaf_source_static;
extern const LeafSourceRoutine leaf_source_hostname;
extern const LeafSourceRoutine leaf_source_zookeeper;

/*
 * Whether the input shows that this node has issued ids of that worker id
 * before, or has had its clock checked for it just now: for sources whose ids
 * are not handed out by anybody.
 */
static inline bool
leaf_source_known_node(const LeafSourceInput *input, int worker_id)
{
	return input->clock_check == LEAF_CLOCK_PASSED ||
		(input->file != NULL && input->file->worker_id == worker_id &&
		 !input->file->unused);
}

/*
 * Begin above the ids in our own data that came from an archive or another
 * server: they were made before the latest commit that did, by whose clock
 * ever.
 */
extern void leaf_source_floor_of_data(LeafSourceResult *result);

/*
 * Fill in a refusal; the formats are errdetail's and errhint's.  hint may be
 * NULL.
 */
extern void leaf_source_refuse(LeafSourceResult *result, LeafRefusal refusal,
							   const char *hint, const char *detail_fmt, ...) pg_attribute_printf(4, 5);

#endif							/* LEAF_SNOWFLAKE_SOURCE_H */
