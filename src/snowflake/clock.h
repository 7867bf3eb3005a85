/*
 * clock.h
 *		The two clocks of snowflake.
 *
 * Ids are made of the wall clock, which anybody may move; intervals and
 * deadlines are measured with the monotonic one, which nobody can.  Both are
 * int64 milliseconds here, and a name says which one it is: _ms is wall time
 * since 1970, mono_ms is monotonic.  The two are never compared.
 */
#ifndef LEAF_SNOWFLAKE_CLOCK_H
#define LEAF_SNOWFLAKE_CLOCK_H

#include "postgres.h"

#include <time.h>

typedef struct LeafClock
{
	int64		wall_ms;		/* ms since 1970-01-01 UTC */
	int64		mono_ms;		/* ms since some moment in the past */
} LeafClock;

static inline int64
leaf_clock_wall_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static inline int64
leaf_clock_mono_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static inline LeafClock
leaf_clock_read(void)
{
	LeafClock	now;

	now.wall_ms = leaf_clock_wall_ms();
	now.mono_ms = leaf_clock_mono_ms();
	return now;
}

#endif							/* LEAF_SNOWFLAKE_CLOCK_H */
