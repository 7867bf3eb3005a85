/*
 * alarm.c
 *		The server-wide alarms, in shared memory.
 *
 * A handful of fixed slots under one LWLock.  They change rarely and are
 * read by people, so nothing here is fast.
 */
#include "postgres.h"

#include "storage/lwlock.h"
#include "utils/timestamp.h"

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
