/*
 * time_bound.h
 *		The durable time bound: a time on disk up to which ids may exist.
 *
 * The contract: no id of a time at or above the bound is ever issued before
 * a file with a larger bound has reached the disk.  Whoever starts after a
 * crash therefore begins at the bound, whatever the clock says.  A clean stop
 * writes the last issued time instead, so that the next start waits for
 * nothing.
 *
 * The file carries the identity of the node that wrote it.  Only the node
 * worker reads and writes it.
 */
#ifndef LEAF_SNOWFLAKE_TIME_BOUND_H
#define LEAF_SNOWFLAKE_TIME_BOUND_H

#include "postgres.h"

#define LEAF_NODE_ADDRESS_LEN 256
#define LEAF_CLUSTER_NAME_LEN 256

/* In the data directory, where every server process works. */
#define LEAF_TIME_BOUND_PATH "leaf_node.state"

/* Who a node is, apart from its worker id. */
typedef struct LeafNodeIdentity
{
	int32		source;			/* LeafWorkerIdSource */
	int64		epoch_ms;
	char		cluster_name[LEAF_CLUSTER_NAME_LEN];
	char		node_address[LEAF_NODE_ADDRESS_LEN];	/* host:port */
} LeafNodeIdentity;

/* What the file says. */
typedef struct LeafTimeBoundFile
{
	LeafNodeIdentity identity;
	int32		worker_id;
	bool		clean;			/* written by a clean stop */
	bool		unused;			/* clean, and no id was ever issued under it */
	uint64		instance;		/* random number of the run that wrote it */
	int64		bound_ms;		/* no id at or above it, ms since 1970 */
	int64		written_at_ms;	/* the clock when it was written */
} LeafTimeBoundFile;

typedef enum LeafTimeBoundRead
{
	LEAF_TIME_BOUND_READ_OK,
	LEAF_TIME_BOUND_READ_MISSING,
	LEAF_TIME_BOUND_READ_INVALID,	/* damaged, truncated, unreadable */
} LeafTimeBoundRead;

/*
 * Read the file.  For INVALID, *error is set to a sentence (palloc'd).
 */
extern LeafTimeBoundRead leaf_time_bound_read(LeafTimeBoundFile *file, char **error);

/*
 * Write the file durably: true only once it is on disk under its name.
 * Otherwise the old one is still in force and *error is a sentence
 * (palloc'd).  Raises no error and logs nothing.
 */
extern bool leaf_time_bound_write(const LeafTimeBoundFile *file, char **error);

/*
 * Whether the node of that identity wrote the file: same source, cluster and
 * address.  The epoch is not compared; leaf_time_bound_floor has it covered.
 */
extern bool leaf_time_bound_is_ours(const LeafTimeBoundFile *file,
									const LeafNodeIdentity *self);

/*
 * The time in ms since 1970 below which a node of that identity and worker
 * id must issue nothing because of the file; 0 if the file does not concern
 * it.  See time_bound.c for the cases.
 */
extern int64 leaf_time_bound_floor(const LeafTimeBoundFile *file,
								   const LeafNodeIdentity *self, int worker_id);

/*
 * Whether a node may start issuing at now_ms.
 *
 * floor_ms: ids may exist up to it.  reported_ms: the clock has shown that
 * much already; a clock that is behind it went back.  One that merely is not
 * past the floor yet has nothing wrong with it, so the floor is waited for,
 * as far as patience_ms.  limit_ms is leaf.clock_backward_limit.
 */
typedef enum LeafStartVerdict
{
	LEAF_START_NOW,
	LEAF_START_WAIT,
	LEAF_START_CLOCK_BEHIND,
} LeafStartVerdict;

static inline LeafStartVerdict
leaf_start_verdict(int64 now_ms, int64 floor_ms, int64 reported_ms,
				   int64 patience_ms, int64 limit_ms)
{
	if (now_ms + limit_ms < reported_ms)
		return LEAF_START_CLOCK_BEHIND;
	if (now_ms > floor_ms)
		return LEAF_START_NOW;
	return floor_ms - now_ms <= patience_ms + limit_ms ?
		LEAF_START_WAIT :
		LEAF_START_CLOCK_BEHIND;
}

#endif							/* LEAF_SNOWFLAKE_TIME_BOUND_H */
