/*
 * alarm.c
 *		The server-wide alarms, in shared memory.
 *
 * A handful of fixed slots under one LWLock.  They change rarely and are
 * read by people, so nothing here is fast.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "storage/lwlock.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "alarm.h"
#include "shmem.h"

typedef struct AlarmSlot
{
	bool		raised;
	TimestampTz since;
	char		message[LEAF_ALARM_TEXT_LEN];
	char		hint[LEAF_ALARM_TEXT_LEN];	/* "": none */
} AlarmSlot;

/* All of it is guarded by leaf_shmem_lock(LEAF_LOCK_ALARM). */
static AlarmSlot *alarms = NULL;

static const char *const alarm_sources[LEAF_ALARM_COUNT] = {
	[LEAF_ALARM_REFILL_WORKER] = "refill worker",
	[LEAF_ALARM_NODE] = "snowflake",
	[LEAF_ALARM_CLOCK] = "clock",
	[LEAF_ALARM_TIME_BOUND] = "time bound",
	[LEAF_ALARM_EPOCH_END] = "epoch",
	[LEAF_ALARM_PEERS] = "peers",
	[LEAF_ALARM_ZOOKEEPER] = "zookeeper",
};

Size
leaf_alarm_shmem_size(void)
{
	return sizeof(AlarmSlot) * LEAF_ALARM_COUNT;
}

void
leaf_alarm_shmem_init(void *ptr, bool found)
{
	alarms = ptr;
	if (!found)
		memset(alarms, 0, leaf_alarm_shmem_size());
}

void
leaf_alarm_raise(LeafAlarm alarm, const char *message, const char *hint)
{
	AlarmSlot  *slot = &alarms[alarm];
	bool		starts;

	LWLockAcquire(leaf_shmem_lock(LEAF_LOCK_ALARM), LW_EXCLUSIVE);
	starts = !slot->raised;
	if (starts)
	{
		slot->raised = true;
		slot->since = GetCurrentTimestamp();
	}
	strlcpy(slot->message, message, sizeof(slot->message));
	strlcpy(slot->hint, hint ? hint : "", sizeof(slot->hint));
	LWLockRelease(leaf_shmem_lock(LEAF_LOCK_ALARM));

	if (starts)
		ereport(LOG,
				(errmsg("leaf alarm: %s: %s", alarm_sources[alarm], message),
				 hint ? errhint("%s", hint) : 0));
}

void
leaf_alarm_clear(LeafAlarm alarm)
{
	AlarmSlot  *slot = &alarms[alarm];
	bool		ends;

	LWLockAcquire(leaf_shmem_lock(LEAF_LOCK_ALARM), LW_EXCLUSIVE);
	ends = slot->raised;
	slot->raised = false;
	LWLockRelease(leaf_shmem_lock(LEAF_LOCK_ALARM));

	if (ends)
		ereport(LOG,
				(errmsg("leaf alarm is over: %s", alarm_sources[alarm])));
}

PG_FUNCTION_INFO_V1(leaf_alarm_status);

/* The server-wide rows of the view leaf_alarms. */
Datum
leaf_alarm_status(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	AlarmSlot	copy[LEAF_ALARM_COUNT];

	leaf_require_preload();
	InitMaterializedSRF(fcinfo, 0);

	LWLockAcquire(leaf_shmem_lock(LEAF_LOCK_ALARM), LW_SHARED);
	memcpy(copy, alarms, sizeof(copy));
	LWLockRelease(leaf_shmem_lock(LEAF_LOCK_ALARM));

	for (int i = 0; i < LEAF_ALARM_COUNT; i++)
	{
		Datum		values[4];
		bool		nulls[4] = {false, false, false, false};

		if (!copy[i].raised)
			continue;
		values[0] = CStringGetTextDatum(alarm_sources[i]);
		values[1] = TimestampTzGetDatum(copy[i].since);
		values[2] = CStringGetTextDatum(copy[i].message);
		nulls[3] = copy[i].hint[0] == '\0';
		if (!nulls[3])
			values[3] = CStringGetTextDatum(copy[i].hint);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
