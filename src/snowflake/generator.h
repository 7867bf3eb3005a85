/*
 * generator.h
 *		The generator of snowflake ids, shared by all databases of the server.
 *
 * Crash contract: what keeps ids unique over a crash is the bound, which is
 * raised here only after the file of time_bound.h is on disk with it.  The last
 * id outlives a crash of the server alone, which saves the wait for the bound.
 */
#ifndef LEAF_SNOWFLAKE_GENERATOR_H
#define LEAF_SNOWFLAKE_GENERATOR_H

#include "postgres.h"

#include "snowflake/time_bound.h"

extern Size leaf_generator_shmem_size(void);
extern void leaf_generator_shmem_init(void *ptr, bool found);

/*
 * The next id, > 0.  Waits up to leaf.wait_timeout for a worker id, for the
 * time bound or for a clock that is back by no more than
 * leaf.clock_backward_limit.  Errors: 55000 not preloaded, refused, disabled, not ready
 * in time, clock moved back; 22008 before the epoch; 2200H past 41 bits.
 */
extern int64 leaf_generator_next(void);

/*
 * For the node worker, which alone calls these.
 *
 * Resume, at the first opening of a run of the server: if the last id of an
 * earlier run is still there and belongs to the state file, it counts as issued
 * since the server started; else it is forgotten.  NULL: the file is missing or
 * does not concern this node.  Later calls do nothing.
 */
extern void leaf_generator_resume(const LeafTimeBoundFile *file);

/*
 * Open: ids of that worker id, all above floor_ms and below bound_ms (ms
 * since 1970), which is already on disk in a file of that instance.  floor_ms
 * may be anything; ids stay above every one that was issued since the server
 * started.
 */
extern void leaf_generator_open(int worker_id, uint64 instance, int64 floor_ms, int64 bound_ms);

/* Raise the bound, already on disk. */
extern void leaf_generator_raise_bound(int64 bound_ms);

/* Once it returns no id is issued any more. */
extern void leaf_generator_close(void);

/* The file on disk knows the last id: a clean stop leaves nothing in memory. */
extern void leaf_generator_settle(void);

/*
 * The clock, ms since 1970, of a call that waits for a higher bound; 0 if
 * there is none.  Forgets it.
 */
extern int64 leaf_generator_take_request(void);

/* Let every waiting call look again. */
extern void leaf_generator_wake_waiters(void);

/* For the node worker and the views. */
typedef struct LeafGeneratorStatus
{
	bool		open;
	int64		last_issued_ms; /* ms since 1970; 0: nothing opened so far */
	bool		issued;			/* an id of this server's run exists */
	int64		bound_ms;		/* ms since 1970; 0: none */
	uint64		ids_issued;		/* since the server started */
	uint64		clock_backward_events;
} LeafGeneratorStatus;

extern void leaf_generator_get_status(LeafGeneratorStatus *status);

#endif							/* LEAF_SNOWFLAKE_GENERATOR_H */
