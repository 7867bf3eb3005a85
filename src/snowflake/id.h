/*
 * id.h
 *		What a snowflake id is made of, and which one comes next.
 *
 * 1 bit 0, 41 bits of milliseconds since leaf.epoch, 10 bits of worker id, 12
 * bits of sequence, as in the articles and in Leaf.  Everything here is a
 * function of its arguments; no state, no clock, no setting.
 *
 * The generator's one word of state is the last id itself, with the sign bit
 * as a gate: set, it is closed and nothing can be issued.  So the time, the
 * sequence, the worker id and the permission to use them change together, in
 * one compare-and-swap.
 */
#ifndef LEAF_SNOWFLAKE_ID_H
#define LEAF_SNOWFLAKE_ID_H

#include "postgres.h"

#define LEAF_ID_SEQUENCE_BITS 12
#define LEAF_ID_WORKER_BITS 10
#define LEAF_ID_TIME_BITS 41

#define LEAF_ID_TIME_SHIFT (LEAF_ID_SEQUENCE_BITS + LEAF_ID_WORKER_BITS)
#define LEAF_ID_MAX_SEQUENCE ((1 << LEAF_ID_SEQUENCE_BITS) - 1)
#define LEAF_ID_MAX_WORKER ((1 << LEAF_ID_WORKER_BITS) - 1)
#define LEAF_ID_MAX_TIME ((INT64CONST(1) << LEAF_ID_TIME_BITS) - 1)

/* The gate in the generator's word. */
#define LEAF_ID_CLOSED (UINT64CONST(1) << 63)

/* time: ms since the epoch, 0 .. LEAF_ID_MAX_TIME */
static inline uint64
leaf_id_make(int64 time, int worker_id, int sequence)
{
	return ((uint64) time << LEAF_ID_TIME_SHIFT) |
		((uint64) worker_id << LEAF_ID_SEQUENCE_BITS) |
		(uint64) sequence;
}

/* The parts of an id, or of the generator's word whatever its gate. */
static inline int64
leaf_id_time(uint64 id)
{
	return (int64) ((id & ~LEAF_ID_CLOSED) >> LEAF_ID_TIME_SHIFT);
}

static inline int
leaf_id_worker(uint64 id)
{
	return (int) (id >> LEAF_ID_SEQUENCE_BITS) & LEAF_ID_MAX_WORKER;
}

static inline int
leaf_id_sequence(uint64 id)
{
	return (int) id & LEAF_ID_MAX_SEQUENCE;
}

typedef enum LeafIdAnswer
{
	LEAF_ID_ISSUE,				/* *next, if the word is still the same */
	LEAF_ID_SEQUENCE_FULL,		/* at the next millisecond */
	LEAF_ID_GATE_CLOSED,		/* no worker id: starting, refused, disabled */
	LEAF_ID_BEYOND_BOUND,		/* once the durable time bound is raised */
	LEAF_ID_CLOCK_BACK,			/* the clock is behind the last id */
	LEAF_ID_BEFORE_EPOCH,
	LEAF_ID_TIME_EXHAUSTED,
} LeafIdAnswer;

/*
 * Which id comes after the generator's word `last`, with a clock read after
 * it at `time` (ms since the epoch, any value) and ids allowed below `bound`
 * (the same unit).  A millisecond begins with first_sequence.
 */
static inline LeafIdAnswer
leaf_id_next(uint64 last, int64 time, int64 bound, int first_sequence,
			 uint64 *next)
{
	int64		last_time;

	if (unlikely(last & LEAF_ID_CLOSED))
		return LEAF_ID_GATE_CLOSED;
	if (unlikely(time < 0))
		return LEAF_ID_BEFORE_EPOCH;
	if (unlikely(time > LEAF_ID_MAX_TIME))
		return LEAF_ID_TIME_EXHAUSTED;

	last_time = leaf_id_time(last);
	if (unlikely(time < last_time))
		return LEAF_ID_CLOCK_BACK;
	if (unlikely(time >= bound))
		return LEAF_ID_BEYOND_BOUND;

	if (time > last_time)
		*next = leaf_id_make(time, leaf_id_worker(last), first_sequence);
	else if (leaf_id_sequence(last) < LEAF_ID_MAX_SEQUENCE)
		*next = last + 1;
	else
		return LEAF_ID_SEQUENCE_FULL;
	return LEAF_ID_ISSUE;
}

#endif							/* LEAF_SNOWFLAKE_ID_H */
