/*
 * buffer.c
 *		The double buffer of one tag: what is not on the hot path.
 *
 * See buffer.h for the rules.  leaf_buffer_publish and leaf_buffer_drop are
 * called under the spinlock of the slot, so nothing here may throw.
 *
 * "issued" counts the ids given out from segments that are done with; what
 * the current one has given out is in the cursor (leaf_buffer_used).
 */
#include "postgres.h"

#include "segment/buffer.h"

/*
 * Move on to the next segment if the current one is used up (or gone) and
 * the next one is loaded.  True: it is worth trying to take again.
 */
bool
leaf_buffer_switch(LeafBuffer *buffer, pg_atomic_uint64 *issued)
{
	uint64		cursor = pg_atomic_read_u64(&buffer->cursor);
	uint32		generation = leaf_word_generation(cursor);
	uint32		length = leaf_segment_read(buffer, generation).length;

	if (leaf_word_count(cursor) < length)
		return true;
	if (!leaf_segment_loaded(buffer, generation + 1))
		return false;
	if (pg_atomic_compare_exchange_u64(&buffer->cursor, &cursor,
									   leaf_word(generation + 1, 0)))
		pg_atomic_fetch_add_u64(issued, Min(leaf_word_count(cursor), length));
	return true;
}

/*
 * Take a contiguous block of ids: from the current segment, across the border
 * where the next one goes on without a gap, or else from the start of the
 * next one, giving up what is left of the current one so that ids keep
 * rising.  By compare-and-swap, never by adding: a block that does not fit
 * must not move the cursor.
 */
LeafTake
leaf_buffer_take_block(LeafBuffer *buffer, uint64 identity,
					   pg_atomic_uint64 *issued, uint32 count, int64 *start)
{
	for (;;)
	{
		uint64		cursor = pg_atomic_read_u64(&buffer->cursor);
		uint32		generation = leaf_word_generation(cursor);
		LeafSegmentView now = leaf_segment_read(buffer, generation);
		LeafSegmentView next = leaf_segment_read(buffer, generation + 1);
		uint32		offset = Min(leaf_word_count(cursor), now.length);
		uint32		left = now.length - offset;
		uint64		target;
		uint32		done;

		if (count <= left)
		{
			*start = now.start + offset;
			target = cursor + count;
			done = 0;
		}
		else if (left > 0 && now.start + now.length == next.start &&
				 count - left <= next.length)
		{
			*start = now.start + offset;
			target = leaf_word(generation + 1, count - left);
			done = now.length;
		}
		else if (count <= next.length)
		{
			*start = next.start;
			target = leaf_word(generation + 1, count);
			done = offset;
		}
		else
			return LEAF_EMPTY;

		/*
		 * The cursor leaves a generation for good when its segment is
		 * dropped, so an unchanged cursor says that both segments were still
		 * loaded; the identity says whose they were.
		 */
		if (pg_atomic_read_u64(&buffer->identity) != identity)
			return LEAF_STALE;
		if (pg_atomic_compare_exchange_u64(&buffer->cursor, &cursor, target))
		{
			pg_atomic_fetch_add_u64(issued, done);
			return LEAF_TAKEN;
		}
	}
}

/*
 * Load a segment for the first generation that has none: the cursor's own, or
 * the one after it.  False if both are loaded.
 *
 * The cursor can't reach the generation meanwhile: it advances only to one
 * that is loaded, or by leaf_buffer_drop, under the same spinlock.  And a
 * generation that the cursor reached and that lost its segment is skipped by
 * leaf_buffer_drop.  So no generation is ever loaded twice once claims in it
 * can exist.
 */
bool
leaf_buffer_publish(LeafBuffer *buffer, int64 start, uint32 length)
{
	uint32		generation = leaf_word_generation(pg_atomic_read_u64(&buffer->cursor));
	LeafSegment *segment;

	Assert(length > 0 && length <= LEAF_MAX_SEGMENT_LENGTH);
	if (leaf_segment_loaded(buffer, generation))
		generation++;
	if (leaf_segment_loaded(buffer, generation))
		return false;

	segment = &buffer->segment[generation & 1];
	pg_atomic_write_u64(&segment->header, 0);
	pg_write_barrier();
	pg_atomic_write_u64(&segment->start, (uint64) start);
	pg_write_barrier();
	pg_atomic_write_u64(&segment->header, leaf_word(generation, length));
	return true;
}

/*
 * Forget all that is loaded.  A claim made from now on is void; one that was
 * validated before belongs to a call that was under way.
 */
void
leaf_buffer_drop(LeafBuffer *buffer, pg_atomic_uint64 *issued)
{
	uint64		cursor = pg_atomic_read_u64(&buffer->cursor);
	uint32		length = leaf_segment_read(buffer, leaf_word_generation(cursor)).length;

	while (!pg_atomic_compare_exchange_u64(&buffer->cursor, &cursor,
										   leaf_word(leaf_word_generation(cursor) + 2, 0)))
		length = leaf_segment_read(buffer, leaf_word_generation(cursor)).length;
	pg_atomic_fetch_add_u64(issued, Min(leaf_word_count(cursor), length));

	pg_atomic_write_u64(&buffer->segment[0].header, 0);
	pg_atomic_write_u64(&buffer->segment[1].header, 0);
	pg_memory_barrier();
}

/* Ids given out from the current segment. */
uint64
leaf_buffer_used(LeafBuffer *buffer)
{
	uint64		cursor = pg_atomic_read_u64(&buffer->cursor);
	uint32		length = leaf_segment_read(buffer, leaf_word_generation(cursor)).length;

	return Min(leaf_word_count(cursor), length);
}
