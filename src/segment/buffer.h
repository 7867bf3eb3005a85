/*
 * buffer.h
 *		The double buffer of one tag: ids are taken from it without a lock.
 *
 * The cursor is one atomic word: generation (high 32 bits) | offset (low 32
 * bits).  Generation g is served from segment[g & 1], whose header word
 * holds the generation it was loaded for and its length; header 0 is
 * "nothing loaded".  To take an id is to add 1 to the cursor: the word that
 * comes back names a generation and an offset that nobody else was given,
 * so that the id is unique if exactly one segment is ever loaded for a
 * generation that the cursor has reached.  That is the one rule that
 * publication has to keep; see leaf_buffer_publish.
 *
 * A claim whose segment is not there (any more), or that lies past its end,
 * is void: its offset is lost, which is a gap and never a duplicate.  Claims
 * are only made where the cursor was seen inside its segment before, so that
 * at most one void claim per backend comes on top of a length of at most
 * 2^31-1: the offset can't run into the generation.  Generations are never
 * reset, not even when the buffer is given to another tag.  They wrap after
 * 2^32 segments of one slot; to be fooled, a backend would have to sleep
 * between two instructions for exactly that long.
 *
 * Who writes what: the cursor, everybody, by atomic operations; the segments
 * and the identity, only under the spinlock of the slot; readers of a segment
 * check its header before and after (a seqlock), and the identity last.
 */
#ifndef LEAF_BUFFER_H
#define LEAF_BUFFER_H

#include "postgres.h"

#include "port/atomics.h"

typedef struct LeafSegment
{
	pg_atomic_uint64 header;	/* generation << 32 | length; 0: not loaded */
	pg_atomic_uint64 start;		/* first id, an int64 */
} LeafSegment;

/* One cache line. */
typedef struct LeafBuffer
{
	pg_atomic_uint64 cursor;	/* generation << 32 | offset */
	pg_atomic_uint64 identity;	/* changes when the buffer changes its tag */
	LeafSegment segment[2];
	pg_atomic_uint32 requested; /* a refill is asked for; see launch.c */
} LeafBuffer;

#define LEAF_MAX_SEGMENT_LENGTH PG_INT32_MAX

static inline uint32
leaf_word_generation(uint64 word)
{
	return (uint32) (word >> 32);
}

/* The offset of a cursor, the length of a header. */
static inline uint32
leaf_word_count(uint64 word)
{
	return (uint32) word;
}

static inline uint64
leaf_word(uint32 generation, uint32 count)
{
	return (uint64) generation << 32 | count;
}

/* What is loaded for a generation; length 0 if nothing is. */
typedef struct LeafSegmentView
{
	int64		start;
	uint32		length;
} LeafSegmentView;

/*
 * Read the segment of a generation consistently.
 */
static inline LeafSegmentView
leaf_segment_read(LeafBuffer *buffer, uint32 generation)
{
	LeafSegment *segment = &buffer->segment[generation & 1];
	LeafSegmentView view = {0, 0};
	uint64		header = pg_atomic_read_u64(&segment->header);
	int64		start;

	if (leaf_word_generation(header) != generation)
		return view;
	pg_read_barrier();
	start = (int64) pg_atomic_read_u64(&segment->start);
	pg_read_barrier();
	if (pg_atomic_read_u64(&segment->header) != header)
		return view;
	view.start = start;
	view.length = leaf_word_count(header);
	return view;
}

static inline bool
leaf_segment_loaded(LeafBuffer *buffer, uint32 generation)
{
	uint64		header = pg_atomic_read_u64(&buffer->segment[generation & 1].header);

	return leaf_word_generation(header) == generation && leaf_word_count(header) > 0;
}

/* What came of an attempt to take ids. */
typedef enum LeafTake
{
	LEAF_TAKEN,
	LEAF_EMPTY,					/* nothing loaded that could serve this */
	LEAF_STALE,					/* the buffer belongs to another tag by now */
} LeafTake;

/* buffer.c */
extern bool leaf_buffer_switch(LeafBuffer *buffer, pg_atomic_uint64 *issued);
extern LeafTake leaf_buffer_take_block(LeafBuffer *buffer, uint64 identity,
									   pg_atomic_uint64 *issued,
									   uint32 count, int64 *start);
extern bool leaf_buffer_publish(LeafBuffer *buffer, int64 start, uint32 length);
extern void leaf_buffer_drop(LeafBuffer *buffer, pg_atomic_uint64 *issued);
extern uint64 leaf_buffer_used(LeafBuffer *buffer);

/*
 * Take one id.  LEAF_EMPTY also covers a segment that is used up while the
 * next one is loaded: leaf_buffer_switch comes next.  *offset and *length are
 * set with the id, for the caller's decision to fetch ahead.
 */
static inline LeafTake
leaf_buffer_take(LeafBuffer *buffer, uint64 identity,
				 int64 *id, uint64 *cursor, uint32 *length)
{
	uint64		claim = pg_atomic_read_u64(&buffer->cursor);
	uint32		generation = leaf_word_generation(claim);
	uint64		header = pg_atomic_read_u64(&buffer->segment[generation & 1].header);
	LeafSegmentView view;

	/* Another tag's id would be lost to it. */
	if (unlikely(pg_atomic_read_u64(&buffer->identity) != identity))
		return LEAF_STALE;
	if (leaf_word_generation(header) != generation ||
		leaf_word_count(claim) >= leaf_word_count(header))
		return LEAF_EMPTY;

	claim = pg_atomic_fetch_add_u64(&buffer->cursor, 1);
	view = leaf_segment_read(buffer, leaf_word_generation(claim));
	if (unlikely(leaf_word_count(claim) >= view.length))
		return LEAF_EMPTY;

	/*
	 * Whoever gives the buffer to another tag changes the identity before
	 * anything else: seen unchanged again after the segment was read, the
	 * segment was ours.
	 */
	if (unlikely(pg_atomic_read_u64(&buffer->identity) != identity))
		return LEAF_STALE;

	*id = view.start + leaf_word_count(claim);
	*cursor = claim;
	*length = view.length;
	return LEAF_TAKEN;
}

#endif							/* LEAF_BUFFER_H */
