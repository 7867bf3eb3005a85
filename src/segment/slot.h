/*
 * slot.h
 *		The tags that this server has cached, in shared memory.
 *
 * A slot is the buffer of one tag and what is known of it.  A tag is a row of
 * one allocation table of one database: the key holds all three, so that the
 * ranges of a dropped and re-created table or database are never found again.
 *
 * Locks.  LEAF_LOCK_TAGS guards which slot belongs to which key (the hash,
 * the free list, entry, sweep_cursor): shared to look, exclusive to change.
 * A slot that is in use is never moved, and backends keep a pointer to it and
 * the identity that it had; a slot that was given to another tag since has
 * another identity.  The spinlock guards the fields under it, and every
 * change of the buffer's segments and identity.  It is held for a few stores.
 */
#ifndef LEAF_SLOT_H
#define LEAF_SLOT_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "storage/condition_variable.h"
#include "storage/spin.h"

#include "segment/buffer.h"
#include "segment/tag.h"

#define LEAF_ERROR_LEN 160

/* A reservation of its own for a block that the buffer can't hold. */
typedef enum LeafBlockState
{
	LEAF_BLOCK_FREE,
	LEAF_BLOCK_WANTED,			/* a backend waits for "count" ids */
	LEAF_BLOCK_GRANTED,			/* "start" is for that backend to collect */
	LEAF_BLOCK_EXHAUSTED,		/* fewer than "count" ids are left */
} LeafBlockState;

typedef struct LeafBlock
{
	LeafBlockState state;
	int64		count;
	int64		start;
} LeafBlock;

/* What a slot knows of its refills; guarded by the spinlock. */
typedef struct LeafRefillState
{
	int32		base_step;		/* the row's step at the last refill; 0: none */
	uint64		issued;			/* ids given out until the last refill */
	int64		monotonic_us;	/* of the last refill */
	uint64		refills;
	TimestampTz last_at;		/* 0: never */
	int64		last_us;		/* how long the last refill took */
	bool		exhausted;		/* max_id is at its end */
	int			failures;		/* in a row */
	TimestampTz failing_since;	/* while failures > 1, for leaf_alarms */
	TimestampTz last_error_at;	/* 0: never */
	char		last_error[LEAF_ERROR_LEN];
} LeafRefillState;

/*
 * Ids given out since the last refill.  "issued" is what the slot says now; it
 * lags for a moment while somebody moves the buffer on.
 */
static inline uint64
leaf_refill_used(const LeafRefillState *refill, uint64 issued)
{
	return issued > refill->issued ? issued - refill->issued : 0;
}

struct LeafTagEntry;

typedef struct LeafSlot
{
	/* hot: read and written by every call; see buffer.h */
	LeafBuffer	buffer pg_attribute_aligned(PG_CACHE_LINE_SIZE);

	/* cold: atomic, written by anybody */
	pg_atomic_uint64 issued pg_attribute_aligned(PG_CACHE_LINE_SIZE);
	pg_atomic_uint64 waits;		/* calls that had to wait */
	pg_atomic_uint64 max_wait_us;
	ConditionVariable changed;	/* something to look at again */

	/* guarded by LEAF_LOCK_WORKERS, see launch.c; -1: end of the list */
	int			next_request;
	int			request_worker;

	/* guarded by LEAF_LOCK_TAGS */
	struct LeafTagEntry *entry; /* NULL: free */
	uint64		sweep_cursor;	/* the cursor when the sweep last came by */
	int			next_free;		/* -1: end of the list */

	slock_t		mutex;
	/* guarded by mutex */
	uint64		invalidations;
	LeafBlock	block;
	LeafRefillState refill;
} LeafSlot;

/* A slot, and the identity by which a holder knows that it is still his. */
typedef struct LeafSlotRef
{
	LeafSlot   *slot;
	uint64		identity;
} LeafSlotRef;

/*
 * What a refill notes before it reads the row: a reservation is published
 * only if both are unchanged.
 */
typedef struct LeafSlotStamp
{
	uint64		identity;
	uint64		invalidations;
} LeafSlotStamp;

/* What the views show of a slot. */
typedef struct LeafSlotStatus
{
	LeafSegmentView now;
	LeafSegmentView next;
	uint32		offset;
	uint64		issued;
	uint64		waits;
	uint64		max_wait_us;
	LeafRefillState refill;
} LeafSlotStatus;

/* slot.c */
extern bool leaf_slot_find(const LeafTagKey *key, LeafSlotRef *ref);
extern bool leaf_slot_find_or_create(const LeafTagKey *key, LeafSlotRef *ref);
extern int	leaf_slot_count(void);
extern LeafSlot *leaf_slot_by_index(int index);
extern int	leaf_slot_index(const LeafSlot *slot);
extern bool leaf_slot_read_key(LeafSlot *slot, LeafTagKey *key, LeafSlotStamp *stamp);
extern void leaf_slot_invalidate(const LeafTagKey *key, bool gone);
extern void leaf_slot_free_all(Oid dboid, Oid relid);
extern uint64 leaf_slot_ids_issued(LeafSlot *slot);

extern bool leaf_slot_read_status(LeafSlot *slot, LeafTagKey *key, LeafSlotStatus *status);

#endif							/* LEAF_SLOT_H */
