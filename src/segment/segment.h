/*
 * segment.h
 *		What the rest of leaf sees of the segment generator.
 *
 * The files of this folder, from the hot path outwards:
 *
 *	buffer.h	the double buffer of one tag: take, switch, publish
 *	slot.c		which tag has which buffer; eviction, invalidation
 *	draw.c		a call for ids: fast path, waiting, blocks
 *	functions.c	the SQL functions and status views
 *	alloc.c		the allocation table: probe, lock, advance
 *	change.c	transactions that change the table themselves
 *	launch.c	requests for a refill, and the start of refill workers
 *	refill.c	the refill worker
 *	utility.c	commands that end a database or an allocation table
 *	step.c		how long the next segment should be
 */
#ifndef LEAF_SEGMENT_H
#define LEAF_SEGMENT_H

#include "postgres.h"

/* Install hooks; called once, from _PG_init in the postmaster. */
extern void leaf_segment_install(void);

/* Shared memory: the slots, the refill workers' registry, the tag hash. */
extern Size leaf_slot_shmem_size(void);
extern Size leaf_slot_hash_size(void);
extern void leaf_slot_shmem_init(void *ptr, bool found);
extern Size leaf_launch_shmem_size(void);
extern void leaf_launch_shmem_init(void *ptr, bool found);

#endif							/* LEAF_SEGMENT_H */
