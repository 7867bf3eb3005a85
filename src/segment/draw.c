/*
 * draw.c
 *		A call for ids: from tag to buffer, and the wait for a segment.
 *
 * A backend remembers the slot of each tag that it has drawn from, and draws
 * without a lock as long as the buffer holds ids.  Everything else happens
 * here, in a loop: see what this transaction itself did to the tag, find the
 * slot (whoever makes one has seen the row first), take, switch, ask for a
 * refill, sleep on the slot.  Whatever wakes the sleeper - a segment, a
 * change of the row, a failure of the worker, another tag in the slot - the
 * loop looks at everything anew.  leaf.wait_timeout ends it, cancel and
 * terminate do at once.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "compat.h"
#include "guc.h"
#include "monotonic.h"
#include "segment/alloc.h"
#include "segment/change.h"
#include "segment/draw.h"
#include "segment/tag.h"

/* The longest sleep before things are looked at again. */
#define MAX_SLEEP_MS 200

/* The pause before a locked table is tried again. */
#define TABLE_LOCKED_SLEEP_MS 10

/* The pause before another slot is looked for, all being busy. */
#define NO_SLOT_SLEEP_MS 20

typedef struct CacheEntry
{
	LeafTagName name;
	uint32		hash;
	char		status;
	LeafSlotRef ref;
} CacheEntry;

#define SH_PREFIX slot_cache
#define SH_ELEMENT_TYPE CacheEntry
#define SH_KEY_TYPE LeafTagName
#define SH_KEY name
#define SH_HASH_KEY(tb, key) leaf_tag_name_hash(key)
#define SH_EQUAL(tb, a, b) leaf_tag_name_equal(a, b)
#define SH_STORE_HASH
#define SH_GET_HASH(tb, a) (a)->hash
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

LeafLastTag leaf_last_tag pg_attribute_aligned(64) = {{NULL, 0}, 0, ""};

/* Tags that this backend has drawn from; references may be stale. */
static slot_cache_hash *cache = NULL;
static MemoryContext cache_context = NULL;

/* The allocation table of this database; invalid: look it up. */
static Oid	alloc_relid = InvalidOid;

/* A call under way. */
typedef struct Draw
{
	LeafTagName name;
	int64		count;
	bool		block;			/* contiguous, by leaf_segment_reserve */
	bool		changed_by_us;	/* this transaction has changed the row */

	int64		start;			/* the answer: the first id */
	int64		begin_us;		/* monotonic */
	bool		waited;
	LeafSlotRef order;			/* where our block is wanted; slot NULL: nowhere */
	LeafSlot   *sleep_slot;		/* whose condition variable we are prepared on */
} Draw;

/* The transaction begins to change an allocation table. */
void
leaf_draw_forget_last(void)
{
	leaf_last_tag.ref.slot = NULL;
}

/*
 * A change of the table's definition, or of any: look it up again.  This can
 * come in the middle of a call, too.
 */
static void
forget_table(Datum arg, Oid relid)
{
	if (relid == alloc_relid || !OidIsValid(relid))
	{
		alloc_relid = InvalidOid;
		leaf_last_tag.ref.slot = NULL;
	}
}

/*
 * The allocation table that belongs to a function of the extension: the one
 * in its schema, since the extension can't be taken apart.
 */
Oid
leaf_draw_table(Oid function)
{
	static bool watching = false;

	if (!watching)
	{
		CacheRegisterRelcacheCallback(forget_table, 0);
		watching = true;
	}
	if (!OidIsValid(alloc_relid))
	{
		alloc_relid = get_relname_relid(LEAF_ALLOC_TABLE, get_func_namespace(function));
		if (!OidIsValid(alloc_relid))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_TABLE),
					 errmsg("allocation table \"%s\" does not exist", LEAF_ALLOC_TABLE),
					 errhint("It must have that name and be in the schema of leaf's functions; rename or move it back.")));
	}
	return alloc_relid;
}

static CacheEntry *
cache_enter(LeafTagName name)
{
	CacheEntry *entry;
	bool		found;

	/* Tags that come and go must not fill the memory. */
	if (cache != NULL && cache->members > 2 * (uint32) leaf_guc_max_tags)
	{
		leaf_last_tag.ref.slot = NULL;
		cache = NULL;
		MemoryContextReset(cache_context);
	}
	if (cache_context == NULL)
		cache_context = AllocSetContextCreate(TopMemoryContext, "leaf slot cache",
											  ALLOCSET_DEFAULT_SIZES);
	if (cache == NULL)
		cache = slot_cache_create(cache_context, 64, NULL);
	entry = slot_cache_lookup(cache, name);
	if (entry == NULL)
		entry = slot_cache_insert(cache, leaf_tag_name_copy(name, cache_context), &found);
	return entry;
}

/*
 * The fast path does not look at the table: whatever makes us forget the one,
 * makes us forget the other.  So nothing is remembered of a table that is
 * forgotten already, since nobody would tell us of its end.
 */
static void
remember_last(const CacheEntry *entry)
{
	if (leaf_change_any || entry->name.relid != alloc_relid ||
		entry->name.len > (int) sizeof(leaf_last_tag.tag))
		return;
	leaf_last_tag.ref = entry->ref;
	leaf_last_tag.len = entry->name.len;
	memcpy(leaf_last_tag.tag, entry->name.tag, entry->name.len);
}

static void
unknown_tag(LeafTagName name)
{
	/* Anything can be asked for, but no tag is longer than this. */
	int			shown = pg_mbcliplen(name.tag, name.len, LEAF_TAG_MAX_BYTES);

	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("tag \"%.*s%s\" does not exist",
					shown, name.tag, shown < name.len ? "..." : ""),
			 errhint("Add it with INSERT INTO %s (biz_tag) VALUES (...), and commit.",
					 quote_qualified_identifier(get_namespace_name(get_rel_namespace(name.relid)),
												LEAF_ALLOC_TABLE))));
}

static void
exhausted_tag(LeafTagName name, bool block)
{
	ereport(ERROR,
			(errcode(ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED),
			 block ? errmsg("tag \"%.*s\" has fewer ids left than are asked for", name.len, name.tag) :
					 errmsg("ids of tag \"%.*s\" are exhausted", name.len, name.tag),
			 errhint("Ids end below %lld. Lower max_id of the tag if the ids above it were never used, or take another tag.",
					 (long long) PG_INT64_MAX)));
}

static void
no_free_slot(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("no free tag slot"),
			 errdetail("All %d tags that the server can cache are waiting for a segment.",
					   leaf_guc_max_tags),
			 errhint("Raise \"leaf.max_tags\" and restart the server.")));
}

/* What is left of leaf.wait_timeout; 0: nothing. */
static int64
time_left_ms(const Draw *draw)
{
	int64		passed_ms = (leaf_monotonic_us() - draw->begin_us) / 1000;

	return Max(leaf_guc_wait_timeout - passed_ms, 0);
}

/* For the view: a call had to wait, and for how long. */
static void
count_wait(const Draw *draw, LeafSlot *slot)
{
	uint64		waited_us = leaf_monotonic_us() - draw->begin_us;
	uint64		max = pg_atomic_read_u64(&slot->max_wait_us);

	if (!draw->waited)
		return;
	pg_atomic_fetch_add_u64(&slot->waits, 1);
	while (max < waited_us &&
		   !pg_atomic_compare_exchange_u64(&slot->max_wait_us, &max, waited_us))
		;
}

/*
 * No segment came in time: say why, as far as is known.
 */
static void
timed_out(const Draw *draw, LeafSlot *slot, const LeafProbe *probe, LeafLaunch launch)
{
	char		last_error[LEAF_ERROR_LEN] = "";

	if (launch == LEAF_LAUNCH_NO_WORKER)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("could not start a worker to reserve ids for tag \"%.*s\"",
						draw->name.len, draw->name.tag),
				 errdetail("There is no free background worker."),
				 errhint("Raise \"max_worker_processes\": leaf needs one for each database that draws ids, besides those of parallel queries and of other extensions.")));

	if (slot != NULL)
	{
		count_wait(draw, slot);
		SpinLockAcquire(&slot->mutex);
		if (slot->refill.failures > 0)
			memcpy(last_error, slot->refill.last_error, sizeof(last_error));
		SpinLockRelease(&slot->mutex);
	}
	if (probe->locked_by_us)
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("no more ids of tag \"%.*s\" can be had in this transaction",
						draw->name.len, draw->name.tag),
				 errdetail("What was cached is used up, and the row of the tag in \"%s\", or the table, is locked by this very transaction.",
						   LEAF_ALLOC_TABLE),
				 errhint("Commit the change of the row before drawing more ids of the tag than are cached.")));

	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("no segment of tag \"%.*s\" was there within %d ms",
					draw->name.len, draw->name.tag, leaf_guc_wait_timeout),
			 slot == NULL ?
				 errdetail("Allocation table \"%s\" is locked by process %d.",
						   LEAF_ALLOC_TABLE, leaf_alloc_table_locker(draw->name.relid)) :
				 last_error[0] != '\0' ?
				 errdetail("The refill worker's last error: %s.", last_error) :
				 0,
			 errhint("See leaf_alarms and leaf_segment_status; a call waits for \"leaf.wait_timeout\" at most.")));
}

/*
 * Nobody waits for our block any more.  If the slot was given to another tag
 * since, the order went with ours, and what is there now is not ours.
 */
static void
withdraw_block(int code, Datum arg)
{
	Draw	   *draw = (Draw *) DatumGetPointer(arg);
	LeafSlot   *slot = draw->order.slot;

	if (slot == NULL)
		return;
	SpinLockAcquire(&slot->mutex);
	if (pg_atomic_read_u64(&slot->buffer.identity) == draw->order.identity)
		slot->block.state = LEAF_BLOCK_FREE;
	SpinLockRelease(&slot->mutex);
	draw->order.slot = NULL;
	ConditionVariableBroadcast(&slot->changed);
}

/*
 * Order a block of its own, or collect it.  True if it was there.  While
 * somebody else's block is under way, ours has to wait.
 */
static bool
draw_own_block(Draw *draw, LeafSlotRef *ref)
{
	LeafSlot   *slot = ref->slot;
	LeafBlockState state = LEAF_BLOCK_WANTED;
	int64		start = 0;

	/* The tag has come to another slot, without our order. */
	if (draw->order.slot != slot || draw->order.identity != ref->identity)
		withdraw_block(0, PointerGetDatum(draw));

	SpinLockAcquire(&slot->mutex);
	if (pg_atomic_read_u64(&slot->buffer.identity) == ref->identity)
	{
		if (draw->order.slot != NULL)
		{
			state = slot->block.state;
			start = slot->block.start;
		}
		else if (slot->block.state == LEAF_BLOCK_FREE)
		{
			slot->block.state = LEAF_BLOCK_WANTED;
			slot->block.count = draw->count;
			draw->order = *ref;
		}
	}
	SpinLockRelease(&slot->mutex);

	switch (state)
	{
		case LEAF_BLOCK_GRANTED:
			draw->start = start;
			withdraw_block(0, PointerGetDatum(draw));
			return true;
		case LEAF_BLOCK_EXHAUSTED:
			withdraw_block(0, PointerGetDatum(draw));
			exhausted_tag(draw->name, true);
			break;
		case LEAF_BLOCK_WANTED:
		case LEAF_BLOCK_FREE:
			break;
	}
	return false;
}

/*
 * Try to take from the buffer of a slot.
 */
static bool
take(Draw *draw, LeafSlotRef *ref)
{
	LeafSlot   *slot = ref->slot;

	if (draw->block)
	{
		if (draw->order.slot == NULL && draw->count <= LEAF_MAX_SEGMENT_LENGTH &&
			leaf_buffer_take_block(&slot->buffer, ref->identity, &slot->issued,
								   (uint32) draw->count, &draw->start) == LEAF_TAKEN)
		{
			uint64		cursor = pg_atomic_read_u64(&slot->buffer.cursor);

			leaf_draw_maybe_prefetch(slot, cursor,
									 leaf_segment_read(&slot->buffer, leaf_word_generation(cursor)).length);
			return true;
		}
		return draw_own_block(draw, ref);
	}

	do
	{
		uint64		cursor;
		uint32		length;
		LeafTake	result = leaf_buffer_take(&slot->buffer, ref->identity,
											  &draw->start, &cursor, &length);

		if (result == LEAF_TAKEN)
		{
			leaf_draw_maybe_prefetch(slot, cursor, length);
			return true;
		}
		if (result == LEAF_STALE)
			return false;
	} while (leaf_buffer_switch(&slot->buffer, &slot->issued));
	return false;
}

static void
sleep_on(Draw *draw, LeafSlot *slot, long timeout_ms)
{
	static uint32 wait_event = 0;

	if (wait_event == 0)
		wait_event = leaf_wait_event_new("LeafSegment");
	draw->waited = true;
	if (slot != NULL)
		(void) ConditionVariableTimedSleep(&slot->changed, timeout_ms, wait_event);
	else
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 timeout_ms, wait_event);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/* Prepare to sleep on a slot before looking at it, so that no wake-up is lost. */
static void
prepare_sleep_on(Draw *draw, LeafSlot *slot)
{
	if (draw->sleep_slot == slot)
		return;
	ConditionVariableCancelSleep();
	draw->sleep_slot = slot;
	if (slot != NULL)
		ConditionVariablePrepareToSleep(&slot->changed);
}

/*
 * The loop described above.
 */
static void
draw_waiting(Draw *draw)
{
	LeafTagName name = draw->name;
	LeafTagKey	key;

	if (!leaf_tag_key_set(&key, MyDatabaseId, name.relid, name.tag, name.len))
		unknown_tag(name);

	for (;;)
	{
		LeafSlotRef ref = {NULL, 0};
		LeafProbe	probe;
		LeafLaunch	launch = LEAF_LAUNCH_OK;
		bool		exhausted = false;
		int64		left_ms;

		/* What is in hand serves even while the table is out of reach. */
		if (leaf_slot_find(&key, &ref))
		{
			prepare_sleep_on(draw, ref.slot);
			if (take(draw, &ref))
				break;
		}

		switch (leaf_alloc_probe(name.relid, name.tag, name.len, &probe))
		{
			case LEAF_PROBE_NO_TABLE:
				unknown_tag(name);
				break;
			case LEAF_PROBE_TABLE_LOCKED:
				left_ms = time_left_ms(draw);
				if (left_ms == 0)
					timed_out(draw, NULL, &probe, launch);
				sleep_on(draw, ref.slot, Min(left_ms, TABLE_LOCKED_SLEEP_MS));
				continue;
			case LEAF_PROBED:
				if (!probe.exists)
				{
					if (ref.slot != NULL)
						leaf_slot_invalidate(&key, true);
					unknown_tag(name);
				}
				probe.locked_by_us |= draw->changed_by_us;
				break;
		}

		if (ref.slot == NULL)
		{
			if (!leaf_slot_find_or_create(&key, &ref))
			{
				prepare_sleep_on(draw, NULL);
				left_ms = time_left_ms(draw);
				if (left_ms == 0)
					no_free_slot();
				sleep_on(draw, NULL, Min(left_ms, NO_SLOT_SLEEP_MS));
				continue;
			}
			prepare_sleep_on(draw, ref.slot);
			if (take(draw, &ref))
				break;
		}

		SpinLockAcquire(&ref.slot->mutex);
		exhausted = ref.slot->refill.exhausted && draw->order.slot == NULL;
		SpinLockRelease(&ref.slot->mutex);
		if (exhausted)
			exhausted_tag(name, draw->block);

		/*
		 * Our own lock does not go away while we wait, and in a trigger that
		 * the worker itself fires we would wait for ourselves.
		 */
		left_ms = probe.locked_by_us || leaf_alloc_writing() ? 0 : time_left_ms(draw);
		if (!probe.locked_by_us)
			launch = leaf_launch_request(ref.slot, !draw->waited);
		if (left_ms == 0)
			timed_out(draw, ref.slot, &probe, launch);
		sleep_on(draw, ref.slot, Min(left_ms, MAX_SLEEP_MS));
	}
}

/*
 * "count" ids, contiguous if "block"; the first of them.
 */
static int64
draw_ids(Oid function, const char *tag, int len, int64 count, bool block)
{
	Draw		draw = {{leaf_draw_table(function), len, tag}, count, block};
	LeafTagKey	key;
	LeafSlotRef ref;

	if (leaf_change_any)
	{
		switch (leaf_change_kind(draw.name.relid, tag, len))
		{
			case LEAF_CHANGE_INSERTED:
				if (!leaf_change_draw(draw.name.relid, tag, len, count, &draw.start))
					exhausted_tag(draw.name, block);
				return draw.start;
			case LEAF_CHANGE_DELETED:
				unknown_tag(draw.name);
				break;
			case LEAF_CHANGE_UPDATED:
				draw.changed_by_us = true;
				break;
			case LEAF_CHANGE_NONE:
				break;
		}
	}

	draw.begin_us = leaf_monotonic_us();
	PG_ENSURE_ERROR_CLEANUP(withdraw_block, PointerGetDatum(&draw));
	{
		draw_waiting(&draw);
	}
	PG_END_ENSURE_ERROR_CLEANUP(withdraw_block, PointerGetDatum(&draw));
	prepare_sleep_on(&draw, NULL);

	/* Remember where it came from. */
	if (leaf_tag_key_set(&key, MyDatabaseId, draw.name.relid, tag, len) &&
		leaf_slot_find(&key, &ref))
	{
		CacheEntry *entry = cache_enter(draw.name);

		entry->ref = ref;
		remember_last(entry);
		count_wait(&draw, ref.slot);
	}
	return draw.start;
}

/*
 * One id of a tag that is not the last one, or not to be had at once.
 */
int64
leaf_draw_one(Oid function, const char *tag, int len)
{
	LeafTagName name = {leaf_draw_table(function), len, tag};
	CacheEntry *entry = cache && !leaf_change_any ? slot_cache_lookup(cache, name) : NULL;
	int64		id;

	if (entry != NULL)
	{
		remember_last(entry);
		if (leaf_draw_from(&entry->ref, &id))
			return id;
	}
	return draw_ids(function, tag, len, 1, false);
}

/*
 * A contiguous block; its first id.
 */
int64
leaf_draw_block(Oid function, const char *tag, int len, int64 count)
{
	return draw_ids(function, tag, len, count, true);
}

/*
 * Ask for the next segment, unless this one is the last.
 */
void
leaf_draw_prefetch(LeafSlot *slot)
{
	bool		exhausted;

	SpinLockAcquire(&slot->mutex);
	exhausted = slot->refill.exhausted;
	SpinLockRelease(&slot->mutex);
	if (!exhausted)
		(void) leaf_launch_request(slot, false);
}
