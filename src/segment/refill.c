/*
 * refill.c
 *		The refill worker of one database.
 *
 * Takes the slots that ask for a segment, reserves from their rows in one
 * transaction, and publishes only what is committed, flushed, and confirmed by
 * the synchronous standbys.  A slot that could not be served - its row is
 * locked, the table is out of reach - is kept and tried again, after a pause
 * that grows; the others go on.
 *
 * If a transaction fails, its slots are tried one by one, so that the error of
 * one tag is that tag's alone.
 *
 * The settings of the database and of the role apply to this process as to any
 * other; those that could make it fail, or lose what it promised, are
 * overridden before it connects.
 */
#include "postgres.h"

#include <signal.h>

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_database.h"
#include "commands/dbcommands.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "replication/syncrep.h"
#include "replication/walsender.h"
#include "replication/walsender_private.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "guc.h"
#include "monotonic.h"
#include "segment/alloc.h"
#include "segment/launch.h"
#include "segment/slot.h"
#include "segment/step.h"

PGDLLEXPORT void leaf_refill_main(Datum arg);

/* Slots that one transaction reserves for at most. */
#define MAX_BATCH 256

/* A worker that is asked nothing for this long leaves. */
#define IDLE_TIMEOUT_US (INT64CONST(60) * USECS_PER_SEC)

/* The pause before a failed slot is tried again doubles from here to there. */
#define MIN_RETRY_US (INT64CONST(20) * 1000)
#define MAX_RETRY_US (INT64CONST(200) * 1000)

/* A standby that has not confirmed a reservation for this long is mentioned. */
#define STANDBY_PATIENCE_US (INT64CONST(300) * 1000)

/* A slot in the hands of this worker. */
typedef struct Refill
{
	LeafSlot   *slot;
	LeafTagKey	key;
	LeafSlotStamp stamp;		/* taken before the row is read */
	int64		retry_at_us;	/* 0: now */
	int64		pause_us;		/* before the next retry */
	bool		alone;			/* its last transaction failed: not with others */
	bool		alarmed;		/* the log says that it can't be served */

	/* while a transaction is under way */
	int64		block_count;	/* a block wanted besides the segment; 0: none */
	bool		block_exhausted;
	int64		length;			/* of the segment; 0: nothing left */
	bool		exhausted;
} Refill;

/* Slots to be served, now or later; an array that grows. */
static Refill *refills = NULL;
static int	refill_count = 0;
static int	refill_size = 0;

/* For the log; the name can't change while we are connected. */
static char database_name[NAMEDATALEN];

/*
 * Settings that hold in this process whatever the database, the role and the
 * files say.  Some exist only in newer versions.
 */
static void
override_settings(void)
{
	static const char *const settings[][2] = {
		{"search_path", "pg_catalog, pg_temp"},
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_read_only", "off"},
		{"default_transaction_deferrable", "off"},
		{"statement_timeout", "0"},
		{"lock_timeout", "0"},
		{"transaction_timeout", "0"},
		{"idle_in_transaction_session_timeout", "0"},
		{"idle_session_timeout", "0"},
		{"exit_on_error", "off"},
		{"jit", "off"},
	};

	for (int i = 0; i < lengthof(settings); i++)
		if (GetConfigOption(settings[i][0], true, false) != NULL)
			SetConfigOption(settings[i][0], settings[i][1], PGC_SUSET, PGC_S_OVERRIDE);
}

/*
 * Start a transaction whose commit is flushed here, whatever synchronous_commit
 * says; it is left to wait_for_standbys to hear from the others.
 */
static void
start_transaction(void)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	(void) set_config_option("synchronous_commit", "local", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_LOCAL, true, 0, false);
}

static void
add_refill(LeafSlot *slot)
{
	if (refill_count == refill_size)
	{
		refill_size = Max(64, refill_size * 2);
		refills = refills ? repalloc_huge(refills, sizeof(Refill) * refill_size) :
							MemoryContextAlloc(TopMemoryContext, sizeof(Refill) * refill_size);
	}
	memset(&refills[refill_count], 0, sizeof(Refill));
	refills[refill_count].pause_us = MIN_RETRY_US;
	refills[refill_count++].slot = slot;
}

static void
collect_requests(void)
{
	LeafSlot   *slots[MAX_BATCH];
	int			n;

	while ((n = leaf_launch_take_requests(slots, MAX_BATCH)) > 0)
		for (int i = 0; i < n; i++)
			add_refill(slots[i]);

	/* Somebody has just begun to wait: see again soon what failed before. */
	if (leaf_launch_take_urgency())
	{
		int64		soon_us = leaf_monotonic_us() + MIN_RETRY_US;

		for (int i = 0; i < refill_count; i++)
		{
			refills[i].retry_at_us = Min(refills[i].retry_at_us, soon_us);
			refills[i].pause_us = MIN_RETRY_US;
		}
	}
}

/* Done with it, one way or the other: the slot may be asked for again. */
static void
finish(Refill *refill)
{
	leaf_launch_requests_done(&refill->slot, 1);
	refill->slot = NULL;
}

/* Forget what is finished. */
static void
compact_refills(void)
{
	int			kept = 0;

	for (int i = 0; i < refill_count; i++)
		if (refills[i].slot != NULL)
			refills[kept++] = refills[i];
	refill_count = kept;
}

/*
 * Note why a slot is not served, for those who wait and for the views.  The
 * second time in a row is an alarm.
 */
static void
note_failure(Refill *refill, const char *message)
{
	LeafSlot   *slot = refill->slot;
	char		text[LEAF_ERROR_LEN];
	int			len = pg_mbcliplen(message, strlen(message), sizeof(text) - 1);
	TimestampTz now = GetCurrentTimestamp();
	bool		alarm;

	memcpy(text, message, len);
	text[len] = '\0';

	SpinLockAcquire(&slot->mutex);
	memcpy(slot->refill.last_error, text, len + 1);
	slot->refill.last_error_at = now;
	alarm = ++slot->refill.failures == 2;
	if (alarm)
		slot->refill.failing_since = now;
	SpinLockRelease(&slot->mutex);

	refill->alarmed |= alarm;
	if (alarm)
		ereport(LOG,
				(errmsg("leaf alarm: segment \"%.*s\" of database \"%s\": %s",
						refill->key.len, refill->key.tag, database_name, text)));
}

/* A failed attempt: try again later. */
static void
fail(Refill *refill, const char *message)
{
	note_failure(refill, message);
	refill->retry_at_us = leaf_monotonic_us() + refill->pause_us;
	refill->pause_us = Min(refill->pause_us * 2, MAX_RETRY_US);
	ConditionVariableBroadcast(&refill->slot->changed);
}

static void
log_end_of_alarm(Refill *refill)
{
	refill->alarmed = false;
	ereport(LOG,
			(errmsg("leaf alarm is over: segment \"%.*s\" of database \"%s\"",
					refill->key.len, refill->key.tag, database_name)));
}

/*
 * The tag can be served, or is no more: the alarm is over, if there was one, be
 * it an earlier worker's.
 */
static void
end_failure(Refill *refill)
{
	LeafSlot   *slot = refill->slot;
	bool		was_alarm;

	SpinLockAcquire(&slot->mutex);
	was_alarm = slot->refill.failures > 1;
	slot->refill.failures = 0;
	SpinLockRelease(&slot->mutex);

	if (was_alarm)
		log_end_of_alarm(refill);
}

/*
 * How much to reserve for a slot, given its row: the segment, and a block that
 * a backend waits for.
 */
static void
plan_reservation(Refill *refill, LeafAllocRow *row)
{
	LeafSlot   *slot = refill->slot;
	int64		now_us = leaf_monotonic_us();
	uint64		issued = leaf_slot_ids_issued(slot);
	int32		step = row->step;
	int64		first;

	SpinLockAcquire(&slot->mutex);
	if (slot->refill.base_step == row->step)
		step = leaf_step_next(row->step, leaf_guc_max_step, leaf_guc_segment_duration,
							  leaf_refill_used(&slot->refill, issued),
							  now_us - slot->refill.monotonic_us);
	refill->block_count = slot->block.state == LEAF_BLOCK_WANTED ? slot->block.count : 0;
	SpinLockRelease(&slot->mutex);

	first = leaf_alloc_advance(row->max_id, refill->block_count);
	refill->block_exhausted = first - row->max_id != refill->block_count;
	if (refill->block_exhausted)
		first = row->max_id;
	row->new_max_id = leaf_alloc_advance(first, step);
	refill->length = row->new_max_id - first;
	refill->exhausted = refill->length == 0;
}

/*
 * Hand over what was reserved and committed.  False if the tag was changed
 * meanwhile: the reservation is void, and has to be made anew.
 */
static bool
publish(Refill *refill, LeafAllocRow *row, int64 begin_us)
{
	LeafSlot   *slot = refill->slot;
	int64		now_us = leaf_monotonic_us();
	TimestampTz now = GetCurrentTimestamp();
	bool		valid;

	SpinLockAcquire(&slot->mutex);
	valid = pg_atomic_read_u64(&slot->buffer.identity) == refill->stamp.identity &&
		slot->invalidations == refill->stamp.invalidations;
	if (valid)
	{
		int64		first = row->new_max_id - refill->length;

		if (refill->block_count > 0 && slot->block.state == LEAF_BLOCK_WANTED &&
			slot->block.count == refill->block_count)
		{
			if (refill->block_exhausted)
				slot->block.state = LEAF_BLOCK_EXHAUSTED;
			else
			{
				/* What was in hand is lower: it would break the order. */
				leaf_buffer_drop(&slot->buffer, &slot->issued);
				slot->block.start = first - refill->block_count;
				slot->block.state = LEAF_BLOCK_GRANTED;
				pg_atomic_fetch_add_u64(&slot->issued, refill->block_count);
			}
		}
		if (refill->length > 0)
			(void) leaf_buffer_publish(&slot->buffer, first, (uint32) refill->length);

		slot->refill.exhausted = refill->exhausted;
		slot->refill.base_step = row->step;
		slot->refill.issued = leaf_slot_ids_issued(slot);
		slot->refill.monotonic_us = now_us;
		slot->refill.refills++;
		slot->refill.last_at = now;
		slot->refill.last_us = now_us - begin_us;
	}
	SpinLockRelease(&slot->mutex);
	return valid;
}

/*
 * Why a row could not be locked.
 */
static void
explain_unavailable(Refill *refill, bool table_opened)
{
	LeafProbe	probe;
	LeafProbeResult result = leaf_alloc_probe(refill->key.relid, refill->key.tag,
											  refill->key.len, &probe);

	if (result == LEAF_PROBE_NO_TABLE || (result == LEAF_PROBED && !probe.exists))
	{
		/* Who asked will see for himself. */
		end_failure(refill);
		finish(refill);
		leaf_slot_invalidate(&refill->key, true);
	}
	else if (!table_opened)
		fail(refill, psprintf("allocation table \"%s\" is locked by process %d", LEAF_ALLOC_TABLE, leaf_alloc_table_locker(refill->key.relid)));
	else if (probe.locked && probe.locker_pid != 0)
		fail(refill, psprintf("the row of the tag in \"%s\" is locked by process %d", LEAF_ALLOC_TABLE, probe.locker_pid));
	else if (probe.locked)
		fail(refill, psprintf("the row of the tag in \"%s\" is locked by a prepared transaction", LEAF_ALLOC_TABLE));
	else
		fail(refill, psprintf("the row of the tag in \"%s\" was locked a moment ago", LEAF_ALLOC_TABLE));
}

static void
reload_if_asked(void)
{
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
}

/* Have the synchronous standbys, if there are any, confirmed it? */
static bool
standbys_confirmed(XLogRecPtr lsn)
{
	int			mode = synchronous_commit == SYNCHRONOUS_COMMIT_REMOTE_APPLY ?
		SYNC_REP_WAIT_APPLY :
		SYNC_REP_WAIT_FLUSH;
	bool		confirmed;

	if (max_wal_senders == 0 || SyncRepStandbyNames == NULL || SyncRepStandbyNames[0] == '\0')
		return true;
	LWLockAcquire(SyncRepLock, LW_SHARED);
	confirmed = WalSndCtl->lsn[mode] >= lsn;
	LWLockRelease(SyncRepLock);
	return confirmed;
}

/*
 * Wait until the synchronous standbys have what was just committed.
 *
 * A commit would wait for that itself, but deaf: while it does, the process
 * answers no ProcSignalBarrier, which every DROP DATABASE of the server waits
 * for, and it takes a termination for a confirmation.
 */
static void
wait_for_standbys(XLogRecPtr lsn, Refill **batch, int n)
{
	int64		begin_us = leaf_monotonic_us();
	int64		noted_us = begin_us;
	long		pause_ms = 1;

	while (!standbys_confirmed(lsn))
	{
		int64		now_us = leaf_monotonic_us();

		if (leaf_launch_dismissed())
			proc_exit(0);
		if (now_us - noted_us > STANDBY_PATIENCE_US)
		{
			noted_us = now_us;
			for (int i = 0; i < n; i++)
				if (batch[i]->slot != NULL)
					note_failure(batch[i], "no synchronous standby has confirmed the reservation yet");
		}
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 pause_ms, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		reload_if_asked();
		pause_ms = Min(pause_ms * 2, 50);
	}
}

/*
 * Serve some slots of one table in one transaction.  Throws if that fails, with
 * nothing published.
 */
static void
reserve_batch(Refill **batch, int n)
{
	static LeafAllocRow rows[MAX_BATCH];	/* outlives the transaction */
	Oid			relid = batch[0]->key.relid;
	int64		begin_us = leaf_monotonic_us();
	bool		opened;

	start_transaction();
	for (int i = 0; i < n; i++)
		rows[i] = (LeafAllocRow) {.tag = batch[i]->key.tag, .len = batch[i]->key.len, .caller_index = i};

	opened = leaf_alloc_open(relid);
	if (opened)
	{
		leaf_alloc_lock_rows(rows, n);
		for (int i = 0; i < n; i++)
			if (rows[i].state == LEAF_ROW_READY)
				plan_reservation(batch[rows[i].caller_index], &rows[i]);
		leaf_alloc_update_rows(rows, n);
		leaf_alloc_close();
	}
	for (int i = 0; i < n; i++)
		if (rows[i].state != LEAF_ROW_READY)
			explain_unavailable(batch[rows[i].caller_index], opened);
	CommitTransactionCommand();
	wait_for_standbys(XactLastCommitEnd, batch, n);

	for (int i = 0; i < n; i++)
	{
		Refill	   *refill = batch[rows[i].caller_index];

		if (rows[i].state != LEAF_ROW_READY)
			continue;
		if (publish(refill, &rows[i], begin_us))
		{
			end_failure(refill);
			finish(refill);
		}
		else
			refill->retry_at_us = 0;
	}
	leaf_launch_worker_is_fine();
}

/*
 * The same, with an error caught.  Whose error it is shows when each is tried
 * alone.
 */
static void
try_batch(Refill **batch, int n)
{
	MemoryContext context = CurrentMemoryContext;
	ErrorData  *volatile error = NULL;

	PG_TRY();
	{
		reserve_batch(batch, n);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		AbortCurrentTransaction();
		MemoryContextSwitchTo(context);
	}
	PG_END_TRY();

	if (error == NULL)
		return;
	for (int i = 0; i < n; i++)
	{
		if (batch[i]->slot == NULL)
			continue;
		batch[i]->alone = true;
		if (n == 1)
			fail(batch[i], error->message);
	}
	FreeErrorData(error);
}

/*
 * Serve what is due.  Slots of one table go together, except those whose last
 * transaction failed.  False: nothing is.
 */
static bool
serve_due(void)
{
	int64		now = leaf_monotonic_us();
	Refill	   *batch[MAX_BATCH];
	int			n = 0;

	for (int i = 0; i < refill_count && n < MAX_BATCH; i++)
	{
		Refill	   *refill = &refills[i];

		if (refill->retry_at_us > now)
			continue;

		/* The slot was taken away from a tag that could not be served. */
		if (refill->alarmed &&
			pg_atomic_read_u64(&refill->slot->buffer.identity) != refill->stamp.identity)
			log_end_of_alarm(refill);
		if (!leaf_slot_read_key(refill->slot, &refill->key, &refill->stamp) ||
			refill->key.dboid != MyDatabaseId)
		{
			finish(refill);		/* the slot was given to another tag */
			continue;
		}
		if (n > 0 && (refill->alone || batch[0]->alone || refill->key.relid != batch[0]->key.relid))
			continue;			/* next turn */
		batch[n++] = refill;
	}
	if (n > 0)
		try_batch(batch, n);
	compact_refills();
	return n > 0;
}

/* Microseconds until the next retry is due; -1: there is none. */
static int64
next_retry_us(void)
{
	int64		now = leaf_monotonic_us();
	int64		least = -1;

	for (int i = 0; i < refill_count; i++)
	{
		int64		left = Max(refills[i].retry_at_us - now, 0);

		if (least < 0 || left < least)
			least = left;
	}
	return least;
}

void
leaf_refill_main(Datum arg)
{
	LeafLaunchArgs args;
	int64		idle_since_us = leaf_monotonic_us();

	memcpy(&args, MyBgworkerEntry->bgw_extra, sizeof(args));

	pqsignal(SIGTERM, die);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);

	/* There is no query of anybody's to cancel, and no timeout is set. */
	pqsignal(SIGINT, PG_SIG_IGN);
	BackgroundWorkerUnblockSignals();

	if (!leaf_launch_attach(args.worker, args.token))
		return;
	override_settings();
	BackgroundWorkerInitializeConnectionByOid(args.dboid, InvalidOid,
											  BGWORKER_BYPASS_ALLOWCONN);
	StartTransactionCommand();
	strlcpy(database_name, get_database_name(MyDatabaseId), NAMEDATALEN);
	CommitTransactionCommand();

	for (;;)
	{
		int64		wait_us;

		CHECK_FOR_INTERRUPTS();
		reload_if_asked();
		if (leaf_launch_dismissed())
			return;

		collect_requests();
		if (refill_count > 0)
		{
			bool		served = serve_due();

			pgstat_report_stat(false);
			idle_since_us = leaf_monotonic_us();

			/*
			 * What waits in there for something else, say for a standby,
			 * also takes the wake-up of a request that has come meanwhile.
			 */
			if (served)
				continue;
		}

		wait_us = next_retry_us();
		if (wait_us < 0)
		{
			wait_us = idle_since_us + IDLE_TIMEOUT_US - leaf_monotonic_us();
			if (wait_us <= 0)
			{
				if (leaf_launch_leave_if_idle())
					return;
				continue;
			}
		}
		if (wait_us == 0)
			continue;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 wait_us / 1000 + 1, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
	}
}
