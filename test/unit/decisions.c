/*
 * decisions.c
 *		Tests of what snowflake decides, as functions of their arguments:
 *		which id comes next, and whether a node may start.  Prints TAP.
 */
#include "postgres.h"

#include "snowflake/id.h"
#include "snowflake/time_bound.h"

/* The C library's: this is not linked with the server. */
#undef printf

static int	ntests = 0;

static void
check(bool good, const char *name)
{
	printf("%sok %d - %s\n", good ? "" : "not ", ++ntests, name);
}

/* The next id after `last`, or the negative of why there is none. */
static int64
next(uint64 last, int64 time, int64 bound, int first)
{
	uint64		id = 0;
	LeafIdAnswer answer = leaf_id_next(last, time, bound, first, &id);

	return answer == LEAF_ID_ISSUE ? (int64) id : -(int64) answer;
}

int
main(void)
{
	const int64 max = LEAF_ID_MAX_TIME;
	const uint64 at = leaf_id_make(1000, 7, 20);

	/* layout */
	check(leaf_id_make(max, 1023, 4095) == PG_INT64_MAX, "all bits set is the largest bigint");
	check(leaf_id_make(1, 0, 0) == UINT64CONST(1) << 22, "time is above bit 22");
	check(leaf_id_make(0, 1, 0) == 4096, "worker id is above bit 12");
	check(leaf_id_time(at) == 1000 && leaf_id_worker(at) == 7 && leaf_id_sequence(at) == 20, "parts of an id");
	check(leaf_id_time(at | LEAF_ID_CLOSED) == 1000, "the gate is not part of the time");

	/* next */
	check(next(at, 1000, 2000, 55) == (int64) leaf_id_make(1000, 7, 21), "same millisecond: one more");
	check(next(at, 1001, 2000, 55) == (int64) leaf_id_make(1001, 7, 55), "next millisecond: first sequence");
	check(next(at, 1999, 2000, 0) == (int64) leaf_id_make(1999, 7, 0), "the last millisecond below the bound");
	check(next(at, 2000, 2000, 0) == -LEAF_ID_BEYOND_BOUND, "the bound itself is not free");
	check(next(at, 1000, 1000, 0) == -LEAF_ID_BEYOND_BOUND, "nor in the same millisecond");
	check(next(leaf_id_make(1000, 7, 4094), 1000, 2000, 0) == (int64) leaf_id_make(1000, 7, 4095), "the last sequence");
	check(next(leaf_id_make(1000, 7, 4095), 1000, 2000, 0) == -LEAF_ID_SEQUENCE_FULL, "sequence full");
	check(next(leaf_id_make(1000, 7, 4095), 1001, 2000, 9) == (int64) leaf_id_make(1001, 7, 9), "and the millisecond after it");
	check(next(leaf_id_make(1000, 1023, 4095), 1000, 2000, 0) == -LEAF_ID_SEQUENCE_FULL, "no overflow into the time");
	check(next(at, 999, 2000, 0) == -LEAF_ID_CLOCK_BACK, "clock back by one");
	check(next(at, 0, 2000, 0) == -LEAF_ID_CLOCK_BACK, "clock back to the epoch");
	check(next(at, 3000, 2000, 0) == -LEAF_ID_BEYOND_BOUND, "clock far ahead of the bound");
	check(next(at, -1, 2000, 0) == -LEAF_ID_BEFORE_EPOCH, "clock before the epoch");
	check(next(at, PG_INT64_MIN, 2000, 0) == -LEAF_ID_BEFORE_EPOCH, "clock long before the epoch");
	check(next(at, max, max + 1, 0) == (int64) leaf_id_make(max, 7, 0), "the last millisecond of all");
	check(next(at, max + 1, max + 9, 0) == -LEAF_ID_TIME_EXHAUSTED, "past 41 bits");
	check(next(at, PG_INT64_MAX, PG_INT64_MAX, 0) == -LEAF_ID_TIME_EXHAUSTED, "long past 41 bits");
	check(next(at | LEAF_ID_CLOSED, 1001, 2000, 0) == -LEAF_ID_GATE_CLOSED, "gate closed");
	check(next(LEAF_ID_CLOSED, -1, 0, 0) == -LEAF_ID_GATE_CLOSED, "gate closed comes first");
	check(next(0, 0, 1, 0) == 1, "id 0 is never returned");

	/* start */
	check(leaf_start_verdict(101, 100, 50, 0, 5) == LEAF_START_NOW, "past the floor");
	check(leaf_start_verdict(100, 100, 50, 0, 5) == LEAF_START_WAIT, "at the floor");
	check(leaf_start_verdict(95, 100, 50, 0, 5) == LEAF_START_WAIT, "behind the floor by the limit");
	check(leaf_start_verdict(94, 100, 50, 0, 5) == LEAF_START_CLOCK_BEHIND, "behind the floor by more");
	check(leaf_start_verdict(94, 100, 50, 1, 5) == LEAF_START_WAIT, "behind the floor with patience");
	check(leaf_start_verdict(3100, 6000, 3000, 3000, 5) == LEAF_START_WAIT, "a crash: the bound is waited for");
	check(leaf_start_verdict(2990, 6000, 3000, 3000, 5) == LEAF_START_CLOCK_BEHIND, "behind the last report");
	check(leaf_start_verdict(2995, 6000, 3000, 5000, 5) == LEAF_START_WAIT, "behind the last report by the limit");
	check(leaf_start_verdict(200, 100, 300, 0, 5) == LEAF_START_CLOCK_BEHIND, "past the floor, behind the last report");
	check(leaf_start_verdict(1, 0, 0, 0, 5) == LEAF_START_NOW, "nothing known");

	printf("1..%d\n", ntests);
	return 0;
}
