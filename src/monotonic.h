/*
 * monotonic.h
 *		Time that never steps, for intervals and deadlines.
 *
 * Microseconds of a clock that has no date: wall-clock time lives in types
 * of its own (TimestampTz, or snowflake's milliseconds) and never meets it.
 */
#ifndef LEAF_MONOTONIC_H
#define LEAF_MONOTONIC_H

#include "postgres.h"

#include "portability/instr_time.h"

static inline int64
leaf_monotonic_us(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	return (int64) INSTR_TIME_GET_MICROSEC(now);
}

#endif							/* LEAF_MONOTONIC_H */
