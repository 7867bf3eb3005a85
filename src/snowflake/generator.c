/*
 * generator.c
 *		Issues snowflake ids out of one atomic word in shared memory.
 *
 * A call reads the word (the last id), then the clock, decides (id.h), and
 * compare-and-swaps the new id in.  In that order: a process that is
 * descheduled between a clock read and a later read of the word would take
 * the ids of the others for a clock that went back.  Nothing else is
 * written but a counter on a cache line of the backend's own.
 *
 * The node worker opens and closes the gate in the word and raises the
 * bound.  Whoever finds the gate closed, the bound reached or the clock back
 * leaves the fast path, and sleeps on a condition variable that the worker
 * broadcasts, or on the clock.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/timestamp.h"

#include "alarm.h"
#include "compat.h"
#include "guc.h"
#include "shmem.h"
#include "snowflake/clock.h"
#include "snowflake/generator.h"
#include "snowflake/id.h"
#include "snowflake/last_id.h"
#include "snowflake/node.h"

/* A backend's own count of ids; only that backend writes it. */
typedef union IdCounter
{
	pg_atomic_uint64 issued;
	char		pad[PG_CACHE_LINE_SIZE];
} IdCounter;

typedef struct Generator
{
	/* Where last_id points to if it can't be had outside. */
	LeafLastId	last_id;
	char		pad1[PG_CACHE_LINE_SIZE - sizeof(LeafLastId)];

	/*
	 * The clock of a call that met the bound, ms since 1970; 0: none did.
	 * Set by any backend, taken by the node worker.
	 */
	pg_atomic_uint64 bound_wanted_ms;

	/*
	 * What last_id was found to hold is kept or forgotten; until then it counts
	 * as nothing.  Set by the node worker.
	 */
	pg_atomic_uint32 judged;

	/* Counts what waiting calls wait for; the node worker adds. */
	pg_atomic_uint32 changes;
	ConditionVariable changed;

	/*
	 * Steps back of the clock, and the word at the latest of them: as long
	 * as the word is the same it is the same step.  Any backend.
	 */
	pg_atomic_uint64 backward_events;
	pg_atomic_uint64 backward_at;

	/* One for each process number; MaxBackends of them. */
	IdCounter	counters[FLEXIBLE_ARRAY_MEMBER];
} Generator;

static Generator *generator = NULL;

/*
 * word: the last id and the gate.  Backends swap in the next id while it is
 * open; the node worker alone opens and closes.
 *
 * bound_ms: ids are issued below this time, ms since 1970, which is on disk.
 * Written by the node worker alone, as is the instance, and never lowered while
 * the gate is open.
 */
static LeafLastId *last_id = NULL;

Size
leaf_generator_shmem_size(void)
{
	return add_size(offsetof(Generator, counters),
					mul_size(MaxBackends, sizeof(IdCounter)));
}

void
leaf_generator_shmem_init(void *ptr, bool found)
{
	LeafLastId *kept;

	generator = ptr;
	last_id = &generator->last_id;
	if (found)
		return;

	memset(generator, 0, leaf_generator_shmem_size());
	pg_atomic_init_u64(&last_id->word, LEAF_ID_CLOSED);
	pg_atomic_init_u64(&last_id->bound_ms, 0);
	kept = leaf_node_wanted() ? leaf_last_id_map() : NULL;
	if (kept != NULL)
	{
		last_id = kept;
		pg_atomic_fetch_or_u64(&last_id->word, LEAF_ID_CLOSED);
	}
	pg_atomic_init_u64(&generator->bound_wanted_ms, 0);
	pg_atomic_init_u32(&generator->judged, 0);
	pg_atomic_init_u32(&generator->changes, 0);
	ConditionVariableInit(&generator->changed);
	pg_atomic_init_u64(&generator->backward_events, 0);
	pg_atomic_init_u64(&generator->backward_at, 0);
	for (int i = 0; i < MaxBackends; i++)
		pg_atomic_init_u64(&generator->counters[i].issued, 0);
}

/*
 * Looks at the clock in a row in a used-up millisecond: some milliseconds of
 * them, so a clock that lives never gets there.
 */
#define SPINS_MAX (1 << 17)

/*
 * One look at the word and the clock: LEAF_ID_ISSUE and *id if that was it.
 * Otherwise the word and the clock (ms since 1970) as they were.
 */
static inline LeafIdAnswer
try_next(uint64 *id, uint64 *last, int64 *now_ms)
{
	int			spins = 0;
	LeafIdAnswer answer;

	for (;;)
	{
		int64		bound_ms;
		int64		time;
		int			first_sequence = 0;

		*last = pg_atomic_read_u64(&last_id->word);
		pg_read_barrier();
		bound_ms = (int64) pg_atomic_read_u64(&last_id->bound_ms);
		*now_ms = leaf_clock_wall_ms();
		time = *now_ms - leaf_guc_epoch_ms;

		/* Leaf's: ids of a quiet node would otherwise all be even. */
		if (time > leaf_id_time(*last) && leaf_guc_sequence_start == LEAF_SEQUENCE_RANDOM)
			first_sequence = pg_prng_uint32(&pg_global_prng_state) % 100;

		answer = leaf_id_next(*last, time, bound_ms - leaf_guc_epoch_ms, first_sequence, id);

		if (answer == LEAF_ID_ISSUE)
		{
			if (pg_atomic_compare_exchange_u64(&last_id->word, last, *id))
				return answer;
		}
		else if (answer != LEAF_ID_SEQUENCE_FULL || ++spins > SPINS_MAX)
			return answer;

		/*
		 * Another call was faster, or the millisecond is used up, which is
		 * over in less than one: any sleep would be longer.
		 */
		CHECK_FOR_INTERRUPTS();
	}
}

static const char *
format_ms(int64 ms)
{
	return timestamptz_to_str(leaf_ms_to_timestamptz(ms));
}

/* Note a step back of the clock, once. */
static void
count_step_back(uint64 last)
{
	uint64		noted = pg_atomic_read_u64(&generator->backward_at);

	if (noted != last &&
		pg_atomic_compare_exchange_u64(&generator->backward_at, &noted, last))
	{
		pg_atomic_fetch_add_u64(&generator->backward_events, 1);
		leaf_node_wake();		/* it has the alarm */
	}
}

/*
 * Sleep until the clock was behind for `behind_ms`, twice, as Leaf does, or
 * until the deadline.
 */
static void
wait_for_clock(int64 behind_ms, int64 deadline_mono_ms)
{
	static uint32 wait_event = 0;
	int64		until_mono_ms = leaf_clock_mono_ms() + 2 * behind_ms;

	if (wait_event == 0)
		wait_event = leaf_wait_event_new("LeafSnowflakeClock");

	until_mono_ms = Min(until_mono_ms, deadline_mono_ms);
	for (;;)
	{
		int64		left_ms = until_mono_ms - leaf_clock_mono_ms();

		CHECK_FOR_INTERRUPTS();
		if (left_ms <= 0)
			break;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 left_ms, wait_event);
		ResetLatch(MyLatch);
	}
}

/*
 * Sleep until the node worker changed something since `seen`; false at the
 * deadline.
 */
static bool
wait_for_change(uint32 seen, int64 deadline_mono_ms)
{
	static uint32 wait_event = 0;
	bool		changed;

	if (wait_event == 0)
		wait_event = leaf_wait_event_new("LeafSnowflakeNode");

	ConditionVariablePrepareToSleep(&generator->changed);
	while (!(changed = pg_atomic_read_u32(&generator->changes) != seen))
	{
		int64		left_ms = deadline_mono_ms - leaf_clock_mono_ms();

		if (left_ms <= 0)
			break;
		(void) ConditionVariableTimedSleep(&generator->changed, left_ms, wait_event);
	}
	ConditionVariableCancelSleep();
	return changed;
}

leaf_noreturn static void
raise_refused(const LeafNodeStatus *status)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("snowflake ids are refused: %s", leaf_refusal_name(status->refusal)),
			 status->detail[0] ? errdetail("%s", status->detail) : 0,
			 status->hint[0] ? errhint("%s", status->hint) : 0));
}

leaf_noreturn static void
raise_disabled(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("snowflake ids are disabled"),
			 errhint("Set leaf.worker_id_source to static, hostname or zookeeper, and restart the server.")));
}

leaf_noreturn static void
raise_not_ready(const LeafNodeStatus *status)
{
	/* Nobody has ever served the gate. */
	if (!leaf_node_wake() && status->worker_id < 0 && status->detail[0] == '\0')
	{
		static const char *const message = "the background worker \"leaf node\" is not running";
		static const char *const hint = "If the server log says that there are too many background workers, increase max_worker_processes.";

		/* It clears the alarm itself, should it come. */
		leaf_alarm_raise(LEAF_ALARM_NODE, message, hint);
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("%s", message),
				 errdetail("Snowflake ids need it, and none came within %d ms.", leaf_guc_wait_timeout),
				 errhint("%s", hint)));
	}

	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("snowflake ids are not available yet"),
			 status->detail[0] ? errdetail("%s", status->detail) :
								 errdetail("The node is still starting after %d ms.", leaf_guc_wait_timeout),
			 errhint("Try again, or wait longer with leaf.wait_timeout; leaf_snowflake_status shows what the node waits for.")));
}

leaf_noreturn static void
raise_bound(const LeafNodeStatus *status)
{
	/* One that hangs, in a write perhaps, can't say so; its next write clears it. */
	if (status->bound_error[0] == '\0')
		leaf_alarm_raise(LEAF_ALARM_TIME_BOUND, "the background worker \"leaf node\" does not raise the time bound",
						 "See what it hangs in: the disk of the data directory, most likely.");
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the durable time bound of snowflake ids was not raised within %d ms", leaf_guc_wait_timeout),
			 status->bound_error[0] ? errdetail("%s", status->bound_error) : 0,
			 errhint("Ids are issued again once \"%s\" can be written in the data directory.", LEAF_TIME_BOUND_PATH)));
}

leaf_noreturn static void
raise_clock_back(int64 last_ms, int64 now_ms)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("clock moved back by %lld ms", (long long) (last_ms - now_ms)),
			 errdetail("The clock shows %s, but the last snowflake id is of %s.",
					   pstrdup(format_ms(now_ms)), pstrdup(format_ms(last_ms))),
			 errhint("Ids are issued again as soon as the clock has reached that time.")));
}

/*
 * The way of a call that could not be answered at once.
 */
static pg_noinline int64
next_slowly(void)
{
	int64		deadline_mono_ms = leaf_clock_mono_ms() + leaf_guc_wait_timeout;

	for (;;)
	{
		/* Before the look at the words: what changes after it is noticed. */
		uint32		seen = pg_atomic_read_u32(&generator->changes);
		LeafNodeStatus status;
		uint64		id;
		uint64		last;
		int64		now_ms;
		int64		last_ms;

		pg_read_barrier();
		switch (try_next(&id, &last, &now_ms))
		{
			case LEAF_ID_ISSUE:
				return (int64) id;

			case LEAF_ID_SEQUENCE_FULL:
				if (leaf_clock_mono_ms() >= deadline_mono_ms)
					ereport(ERROR,
							(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
							 errmsg("the clock stands still"),
							 errdetail("All ids of the millisecond %s are used.", format_ms(now_ms)),
							 errhint("Ids are issued again as soon as the clock moves on.")));
				break;

			case LEAF_ID_GATE_CLOSED:
				leaf_node_get_status(&status);
				if (status.state == LEAF_NODE_DISABLED)
					raise_disabled();

				/* Unless we were promoted and the worker has not looked yet. */
				if (status.state == LEAF_NODE_REFUSED &&
					(status.refusal != LEAF_REFUSAL_IN_RECOVERY || RecoveryInProgress()))
					raise_refused(&status);
				(void) leaf_node_wake();
				if (!wait_for_change(seen, deadline_mono_ms))
				{
					leaf_node_get_status(&status);
					raise_not_ready(&status);
				}
				break;

			case LEAF_ID_BEYOND_BOUND:
				pg_atomic_write_u64(&generator->bound_wanted_ms, (uint64) now_ms);
				(void) leaf_node_wake();
				if (!wait_for_change(seen, deadline_mono_ms))
				{
					leaf_node_get_status(&status);
					raise_bound(&status);
				}
				break;

			case LEAF_ID_CLOCK_BACK:
				last_ms = leaf_id_time(last) + leaf_guc_epoch_ms;
				count_step_back(last);
				if (last_ms - now_ms > leaf_guc_clock_backward_limit ||
					leaf_clock_mono_ms() >= deadline_mono_ms)
					raise_clock_back(last_ms, now_ms);
				wait_for_clock(last_ms - now_ms, deadline_mono_ms);
				break;

			case LEAF_ID_BEFORE_EPOCH:
				ereport(ERROR,
						(errcode(ERRCODE_DATETIME_FIELD_OVERFLOW),
						 errmsg("the clock is before the epoch of snowflake ids"),
						 errdetail("The clock shows %s, and leaf.epoch is %s.",
								   pstrdup(format_ms(now_ms)), pstrdup(format_ms(leaf_guc_epoch_ms))),
						 errhint("Set the clock, or leaf.epoch.")));
				break;

			case LEAF_ID_TIME_EXHAUSTED:
				ereport(ERROR,
						(errcode(ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED),
						 errmsg("the 41 bits of time of snowflake ids are exhausted"),
						 errdetail("With leaf.epoch at %s they ended at %s.",
								   pstrdup(format_ms(leaf_guc_epoch_ms)),
								   pstrdup(format_ms(leaf_guc_epoch_ms + LEAF_ID_MAX_TIME))),
						 errhint("Move the rows to another key; a later leaf.epoch would repeat ids that exist.")));
				break;
		}
	}
}

int64
leaf_generator_next(void)
{
	uint64		id;
	uint64		last;
	int64		now_ms;
	pg_atomic_uint64 *counter;

	if (unlikely(last_id == NULL))
		leaf_require_preload();
	if (unlikely(try_next(&id, &last, &now_ms) != LEAF_ID_ISSUE))
		id = (uint64) next_slowly();

	Assert(leaf_my_proc_number() < MaxBackends);
	counter = &generator->counters[leaf_my_proc_number()].issued;
	pg_atomic_write_u64(counter, pg_atomic_read_u64(counter) + 1);
	return (int64) id;
}

void
leaf_generator_resume(const LeafTimeBoundFile *file)
{
	uint64		last = pg_atomic_read_u64(&last_id->word);

	if (pg_atomic_read_u32(&generator->judged) != 0)
		return;
	if (file == NULL || file->instance != last_id->instance ||
		file->identity.epoch_ms != leaf_guc_epoch_ms ||
		file->worker_id != leaf_id_worker(last))
		pg_atomic_write_u64(&last_id->word, LEAF_ID_CLOSED);
	pg_write_barrier();
	pg_atomic_write_u32(&generator->judged, 1);
}

void
leaf_generator_open(int worker_id, uint64 instance, int64 floor_ms, int64 bound_ms)
{
	uint64		last = pg_atomic_read_u64(&last_id->word);
	int64		time = Max(floor_ms - leaf_guc_epoch_ms, 0);

	Assert(last & LEAF_ID_CLOSED);

	/*
	 * Begin with a full millisecond: all ids are above that time.  The word
	 * thereby never has a value twice, so that a call that slept through a
	 * closing and an opening fails its compare-and-swap.
	 */
	time = Max(time, leaf_id_time(last) + 1);
	time = Min(time, LEAF_ID_MAX_TIME);

	last_id->instance = instance;
	pg_atomic_write_u64(&last_id->bound_ms, (uint64) bound_ms);
	pg_write_barrier();
	pg_atomic_write_u64(&last_id->word,
						leaf_id_make(time, worker_id, LEAF_ID_MAX_SEQUENCE));
	leaf_generator_wake_waiters();
}

void
leaf_generator_raise_bound(int64 bound_ms)
{
	Assert(bound_ms >= (int64) pg_atomic_read_u64(&last_id->bound_ms));

	pg_atomic_write_u64(&last_id->bound_ms, (uint64) bound_ms);
	leaf_generator_wake_waiters();
}

void
leaf_generator_close(void)
{
	pg_atomic_fetch_or_u64(&last_id->word, LEAF_ID_CLOSED);
}

void
leaf_generator_settle(void)
{
	last_id->instance = 0;
}

int64
leaf_generator_take_request(void)
{
	return (int64) pg_atomic_exchange_u64(&generator->bound_wanted_ms, 0);
}

void
leaf_generator_wake_waiters(void)
{
	pg_atomic_fetch_add_u32(&generator->changes, 1);
	ConditionVariableBroadcast(&generator->changed);
}

void
leaf_generator_get_status(LeafGeneratorStatus *status)
{
	bool		judged = pg_atomic_read_u32(&generator->judged) != 0;
	uint64		last;

	pg_read_barrier();
	last = pg_atomic_read_u64(&last_id->word);
	memset(status, 0, sizeof(*status));
	status->open = (last & LEAF_ID_CLOSED) == 0;
	status->bound_ms = (int64) pg_atomic_read_u64(&last_id->bound_ms);
	if (judged && (last & ~LEAF_ID_CLOSED) != 0)
		status->last_issued_ms = leaf_id_time(last) + leaf_guc_epoch_ms;
	status->clock_backward_events = pg_atomic_read_u64(&generator->backward_events);
	for (int i = 0; i < MaxBackends; i++)
		status->ids_issued += pg_atomic_read_u64(&generator->counters[i].issued);
	status->issued = status->ids_issued > 0;
}
