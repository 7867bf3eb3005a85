/*
 * alarm.h
 *		Alarms: what is wrong in a process that nobody looks at.
 *
 * An alarm is a state, not an event: it is raised when something starts to
 * be wrong and cleared when that is over; each of the two is one line in the
 * server log.  While raised it is a row of leaf_alarms.
 */
#ifndef LEAF_ALARM_H
#define LEAF_ALARM_H

#include "postgres.h"

/*
 * The alarms of the server as a whole.  One that concerns a single tag lives
 * with that tag instead (see segment/slot.h).
 */
typedef enum LeafAlarm
{
	LEAF_ALARM_REFILL_WORKER,	/* a refill worker can't be started */
	LEAF_ALARM_NODE,			/* snowflake refused: the message says why */
	LEAF_ALARM_CLOCK,			/* clock moved back, or far from the peers */
	LEAF_ALARM_TIME_BOUND,		/* the durable time bound can't be written */
	LEAF_ALARM_EPOCH_END,		/* the 41 bits of time end within a year */
	LEAF_ALARM_PEERS,			/* the peers' check does not work */
	LEAF_ALARM_ZOOKEEPER,		/* ZooKeeper is out of reach or refuses us */
	LEAF_ALARM_COUNT
} LeafAlarm;

#define LEAF_ALARM_TEXT_LEN 256

extern Size leaf_alarm_shmem_size(void);
extern void leaf_alarm_shmem_init(void *ptr, bool found);

/*
 * Raise an alarm, or change the text of one that is raised.  Logs when the
 * alarm starts; a change of text alone is silent.  hint may be NULL.  Any
 * process with access to shared memory may call it; takes an LWLock.
 */
extern void leaf_alarm_raise(LeafAlarm alarm, const char *message, const char *hint);

/* Clear an alarm; logs if it was raised. */
extern void leaf_alarm_clear(LeafAlarm alarm);

#endif							/* LEAF_ALARM_H */
