/*
 * draw.h
 *		A call for ids.
 */
#ifndef LEAF_DRAW_H
#define LEAF_DRAW_H

#include "postgres.h"

#include "guc.h"
#include "segment/launch.h"
#include "segment/slot.h"
#include "segment/tag.h"

/*
 * The tag that this backend drew from last, on one cache line.  None while the
 * transaction has changed an allocation table, and none whose name is longer.
 */
typedef struct LeafLastTag
{
	LeafSlotRef ref;			/* ref.slot NULL: none */
	int			len;
	char		tag[44];
} LeafLastTag;

extern LeafLastTag leaf_last_tag;

extern void leaf_draw_forget_last(void);
extern Oid	leaf_draw_table(Oid function);
extern int64 leaf_draw_one(Oid function, const char *tag, int len);
extern void leaf_draw_prefetch(LeafSlot *slot);
extern int64 leaf_draw_block(Oid function, const char *tag, int len, int64 count);

/*
 * Ask for the next segment once enough of this one is used.  While the request
 * is under way, ask again now and then, should it have got lost with its
 * worker.
 */
static inline void
leaf_draw_maybe_prefetch(LeafSlot *slot, uint64 cursor, uint32 length)
{
	uint32		offset = leaf_word_count(cursor);

	if (leaf_segment_loaded(&slot->buffer, leaf_word_generation(cursor) + 1))
		return;
	if ((uint64) (offset + 1) * 100 < (uint64) length * leaf_guc_prefetch_threshold)
		return;
	if (pg_atomic_read_u32(&slot->buffer.requested) == 0 || offset % 64 == 0)
		leaf_draw_prefetch(slot);
}

/*
 * The hot path, with the slot known: its segment holds another id.
 */
static inline bool
leaf_draw_from(const LeafSlotRef *ref, int64 *id)
{
	uint64		cursor;
	uint32		length;

	if (leaf_buffer_take(&ref->slot->buffer, ref->identity, id, &cursor, &length) != LEAF_TAKEN)
		return false;
	leaf_draw_maybe_prefetch(ref->slot, cursor, length);
	return true;
}

/*
 * The same if the tag is the one of the last call.
 */
static inline bool
leaf_draw_fast(const char *tag, int len, int64 *id)
{
	return leaf_last_tag.ref.slot != NULL && leaf_last_tag.len == len &&
		leaf_tag_equal(leaf_last_tag.tag, tag, len) &&
		leaf_draw_from(&leaf_last_tag.ref, id);
}

#endif							/* LEAF_DRAW_H */
