/*
 * slot.c
 *		The tags that this server has cached; see slot.h.
 *
 * leaf.max_tags slots and a hash from key to slot, all reserved at start.
 * When they are used up, a clock sweep takes the slot of a tag that has not
 * been drawn from since the sweep last came by: what it had cached is a gap.
 */
#include "postgres.h"

#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/hsearch.h"

#include "compat.h"
#include "guc.h"
#include "segment/segment.h"
#include "segment/slot.h"
#include "shmem.h"

typedef struct LeafTagEntry
{
	LeafTagKey	key;			/* first: the hash wants it so */
	LeafSlot   *slot;
} LeafTagEntry;

typedef struct SlotTable
{
	/* guarded by LEAF_LOCK_TAGS */
	int			first_free;		/* -1: none */
	int			hand;			/* where the sweep goes on */
	LeafSlot	slot[FLEXIBLE_ARRAY_MEMBER];
} SlotTable;

static SlotTable *table = NULL;
static HTAB *tags = NULL;

static uint32
key_hash(const void *ptr, Size keysize)
{
	const LeafTagKey *key = ptr;

	return leaf_tag_hash(key->tag, key->len) ^
		murmurhash32(key->dboid) ^ murmurhash32(key->relid + 1);
}

static int
key_compare(const void *left, const void *right, Size keysize)
{
	const LeafTagKey *a = left;
	const LeafTagKey *b = right;

	return !(a->dboid == b->dboid && a->relid == b->relid &&
			 a->len == b->len && memcmp(a->tag, b->tag, a->len) == 0);
}

/* The used part of a key only: the rest of it is not set. */
static void *
key_copy(void *dest, const void *src, Size keysize)
{
	return memcpy(dest, src, offsetof(LeafTagKey, tag) + ((const LeafTagKey *) src)->len);
}

Size
leaf_slot_shmem_size(void)
{
	return add_size(offsetof(SlotTable, slot),
					mul_size(leaf_guc_max_tags, sizeof(LeafSlot)));
}

Size
leaf_slot_hash_size(void)
{
	return hash_estimate_size(leaf_guc_max_tags, sizeof(LeafTagEntry));
}

static void
slot_init(LeafSlot *slot, int next_free)
{
	memset(slot, 0, sizeof(*slot));
	pg_atomic_init_u64(&slot->buffer.cursor, leaf_word(1, 0));
	pg_atomic_init_u64(&slot->buffer.identity, 1);
	for (int i = 0; i < lengthof(slot->buffer.segment); i++)
	{
		pg_atomic_init_u64(&slot->buffer.segment[i].header, 0);
		pg_atomic_init_u64(&slot->buffer.segment[i].start, 0);
	}
	pg_atomic_init_u32(&slot->buffer.requested, 0);
	pg_atomic_init_u64(&slot->issued, 0);
	pg_atomic_init_u64(&slot->waits, 0);
	pg_atomic_init_u64(&slot->max_wait_us, 0);
	ConditionVariableInit(&slot->changed);
	SpinLockInit(&slot->mutex);
	slot->next_request = -1;
	slot->next_free = next_free;
}

void
leaf_slot_shmem_init(void *ptr, bool found)
{
	HASHCTL		info = {0};

	table = ptr;
	if (!found)
	{
		table->first_free = 0;
		table->hand = 0;
		for (int i = 0; i < leaf_guc_max_tags; i++)
			slot_init(&table->slot[i], i + 1 < leaf_guc_max_tags ? i + 1 : -1);
	}

	info.keysize = sizeof(LeafTagKey);
	info.entrysize = sizeof(LeafTagEntry);
	info.hash = key_hash;
	info.match = key_compare;
	info.keycopy = key_copy;
	tags = leaf_shmem_init_hash("leaf tags by key", leaf_guc_max_tags, &info,
								HASH_ELEM | HASH_FUNCTION | HASH_COMPARE | HASH_KEYCOPY);
}

int
leaf_slot_count(void)
{
	return leaf_guc_max_tags;
}

LeafSlot *
leaf_slot_by_index(int index)
{
	Assert(index >= 0 && index < leaf_guc_max_tags);
	return &table->slot[index];
}

int
leaf_slot_index(const LeafSlot *slot)
{
	return slot - table->slot;
}

static void
ref_set(LeafSlotRef *ref, LeafSlot *slot)
{
	ref->slot = slot;
	ref->identity = pg_atomic_read_u64(&slot->buffer.identity);
}

/* True and *ref set if the tag is cached. */
bool
leaf_slot_find(const LeafTagKey *key, LeafSlotRef *ref)
{
	LeafTagEntry *entry;

	LWLockAcquire(leaf_shmem_lock(LEAF_LOCK_TAGS), LW_SHARED);
	entry = hash_search(tags, key, HASH_FIND, NULL);
	if (entry != NULL)
		ref_set(ref, entry->slot);
	LWLockRelease(leaf_shmem_lock(LEAF_LOCK_TAGS));
	return entry != NULL;
}

/* Forget what is cached.  The caller holds the spinlock. */
static void
invalidate_locked(LeafSlot *slot)
{
	slot->invalidations++;
	leaf_buffer_drop(&slot->buffer, &slot->issued);
	slot->refill.exhausted = false;
	slot->refill.base_step = 0;
}

/*
 * Take a slot away from its tag.  The caller holds LEAF_LOCK_TAGS exclusively.
 * A holder of a reference, asleep or about to take, finds another identity.
 * False if somebody refills the slot or waits for a block of its own, unless
 * "even_busy".
 */
static bool
release_slot(LeafSlot *slot, bool even_busy)
{
	LeafTagEntry *entry = slot->entry;
	bool		busy;

	/* A block is ordered under the spinlock, by one who saw the identity. */
	SpinLockAcquire(&slot->mutex);
	busy = !even_busy && (slot->block.state != LEAF_BLOCK_FREE || pg_atomic_read_u32(&slot->buffer.requested) != 0);
	if (!busy)
	{
		pg_atomic_fetch_add_u64(&slot->buffer.identity, 1);
		invalidate_locked(slot);
		memset(&slot->block, 0, sizeof(slot->block));
		memset(&slot->refill, 0, sizeof(slot->refill));
		pg_atomic_write_u64(&slot->issued, 0);
	}
	SpinLockRelease(&slot->mutex);
	if (busy)
		return false;
	pg_atomic_write_u64(&slot->waits, 0);
	pg_atomic_write_u64(&slot->max_wait_us, 0);

	slot->entry = NULL;
	hash_search(tags, &entry->key, HASH_REMOVE, NULL);
	slot->next_free = table->first_free;
	table->first_free = leaf_slot_index(slot);
	ConditionVariableBroadcast(&slot->changed);
	return true;
}

/*
 * Make room: release the slot of a tag that was idle for a whole turn of the
 * sweep.  The caller holds LEAF_LOCK_TAGS exclusively.  False if every slot is
 * busy.
 */
static bool
evict_idle(void)
{
	/* Two turns: the first one may have to note every cursor. */
	for (int i = 0; i < 2 * leaf_guc_max_tags; i++)
	{
		LeafSlot   *slot = &table->slot[table->hand];
		uint64		cursor = pg_atomic_read_u64(&slot->buffer.cursor);

		table->hand = (table->hand + 1) % leaf_guc_max_tags;
		if (i < leaf_guc_max_tags && slot->sweep_cursor != cursor)
			slot->sweep_cursor = cursor;
		else if (release_slot(slot, false))
			return true;
	}
	return false;
}

/*
 * The slot of a tag that is known to exist.  False if every slot is busy.
 */
bool
leaf_slot_find_or_create(const LeafTagKey *key, LeafSlotRef *ref)
{
	LeafTagEntry *entry;

	if (leaf_slot_find(key, ref))
		return true;

	LWLockAcquire(leaf_shmem_lock(LEAF_LOCK_TAGS), LW_EXCLUSIVE);
	entry = hash_search(tags, key, HASH_FIND, NULL);
	if (entry == NULL)
	{
		LeafSlot   *slot;

		if (table->first_free < 0 && !evict_idle())
		{
			LWLockRelease(leaf_shmem_lock(LEAF_LOCK_TAGS));
			return false;
		}
		slot = &table->slot[table->first_free];
		entry = hash_search(tags, key, HASH_ENTER, NULL);
		table->first_free = slot->next_free;
		slot->entry = entry;
		slot->sweep_cursor = 0;
		entry->slot = slot;
	}
	ref_set(ref, entry->slot);
	LWLockRelease(leaf_shmem_lock(LEAF_LOCK_TAGS));
	return true;
}

/*
 * Whose slot is it, and the stamp to publish under.  False: nobody's.
 */
bool
leaf_slot_read_key(LeafSlot *slot, LeafTagKey *key, LeafSlotStamp *stamp)
{
	bool		used;

	LWLockAcquire(leaf_shmem_lock(LEAF_LOCK_TAGS), LW_SHARED);
	used = slot->entry != NULL;
	if (used)
	{
		key_copy(key, &slot->entry->key, sizeof(*key));
		SpinLockAcquire(&slot->mutex);
		stamp->identity = pg_atomic_read_u64(&slot->buffer.identity);
		stamp->invalidations = slot->invalidations;
		SpinLockRelease(&slot->mutex);
	}
	LWLockRelease(leaf_shmem_lock(LEAF_LOCK_TAGS));
	return used;
}

/*
 * What was cached of a tag is void; if its row is gone, it needs no slot
 * either, unless somebody is busy with that, who will notice.
 */
static void
invalidate(LeafSlot *slot, bool gone)
{
	if (gone && release_slot(slot, false))
		return;
	SpinLockAcquire(&slot->mutex);
	invalidate_locked(slot);
	SpinLockRelease(&slot->mutex);
	ConditionVariableBroadcast(&slot->changed);
}

/*
 * A change of the tag's row was committed, or its end ("gone").  Called with
 * the transaction committed, so it can't fail.
 */
void
leaf_slot_invalidate(const LeafTagKey *key, bool gone)
{
	LeafTagEntry *entry;

	LWLockAcquire(leaf_shmem_lock(LEAF_LOCK_TAGS), gone ? LW_EXCLUSIVE : LW_SHARED);
	entry = hash_search(tags, key, HASH_FIND, NULL);
	if (entry != NULL)
		invalidate(entry->slot, gone);
	LWLockRelease(leaf_shmem_lock(LEAF_LOCK_TAGS));
}

/*
 * Give back the slots of an allocation table that is dropped, or of all tables
 * of a database (relid invalid).  The caller has seen to it that no new segment
 * can be reserved.
 */
void
leaf_slot_free_all(Oid dboid, Oid relid)
{
	LWLockAcquire(leaf_shmem_lock(LEAF_LOCK_TAGS), LW_EXCLUSIVE);
	for (int i = 0; i < leaf_guc_max_tags; i++)
	{
		LeafTagEntry *entry = table->slot[i].entry;

		if (entry != NULL && entry->key.dboid == dboid &&
			(!OidIsValid(relid) || entry->key.relid == relid))
			(void) release_slot(entry->slot, true);
	}
	LWLockRelease(leaf_shmem_lock(LEAF_LOCK_TAGS));
}

/* Ids given out since the tag was cached. */
uint64
leaf_slot_ids_issued(LeafSlot *slot)
{
	return pg_atomic_read_u64(&slot->issued) + leaf_buffer_used(&slot->buffer);
}

/*
 * Copy what a slot says, to be formatted without a lock.  False: it is free, or
 * changes hands.
 */
bool
leaf_slot_read_status(LeafSlot *slot, LeafTagKey *key, LeafSlotStatus *status)
{
	LeafSlotStamp stamp;
	uint64		cursor;
	bool		same;

	if (!leaf_slot_read_key(slot, key, &stamp))
		return false;

	/* Nothing is loaded or dropped while the spinlock is held. */
	SpinLockAcquire(&slot->mutex);
	same = pg_atomic_read_u64(&slot->buffer.identity) == stamp.identity;
	cursor = pg_atomic_read_u64(&slot->buffer.cursor);
	status->now = leaf_segment_read(&slot->buffer, leaf_word_generation(cursor));
	status->next = leaf_segment_read(&slot->buffer, leaf_word_generation(cursor) + 1);
	status->offset = Min(leaf_word_count(cursor), status->now.length);
	status->issued = leaf_slot_ids_issued(slot);
	status->waits = pg_atomic_read_u64(&slot->waits);
	status->max_wait_us = pg_atomic_read_u64(&slot->max_wait_us);
	status->refill = slot->refill;
	SpinLockRelease(&slot->mutex);
	return same;
}
