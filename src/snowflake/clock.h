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

#include "common/int.h"
#include "datatype/timestamp.h"

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

/* Wall time as SQL shows it; infinity where SQL has no such time. */
static inline TimestampTz
leaf_ms_to_timestamptz(int64 ms)
{
	const int64 offset = (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;
	int64		us;

	if (pg_mul_s64_overflow(ms, 1000, &us) || pg_sub_s64_overflow(us, offset, &us) ||
		!IS_VALID_TIMESTAMP(us))
		return ms < 0 ? DT_NOBEGIN : DT_NOEND;
	return us;
}

/* The millisecond, ms since 1970, that a (finite) timestamptz lies in. */
static inline int64
leaf_timestamptz_to_ms(TimestampTz ts)
{
	const int64 offset = (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * INT64CONST(86400000);
	int64		ms = ts / 1000;

	if (ts % 1000 < 0)
		ms--;
	return ms + offset;
}

#endif							/* LEAF_SNOWFLAKE_CLOCK_H */
