/*
 * shmem.h
 *		The shared memory of leaf as a whole: its size, its parts, its locks.
 */
#ifndef LEAF_SHMEM_H
#define LEAF_SHMEM_H

#include "postgres.h"

#include "storage/lwlock.h"

/*
 * The LWLocks of leaf.  Lock order: a process that holds one of them takes
 * no other of them, no heavyweight lock and no I/O; a slot's spinlock may be
 * taken inside LEAF_LOCK_TAGS.
 */
typedef enum LeafLock
{
	LEAF_LOCK_TAGS,				/* segment/slot.c: which slot is whose */
	LEAF_LOCK_WORKERS,			/* segment/launch.c: refill workers */
	LEAF_LOCK_ALARM,			/* alarm.c */
	LEAF_LOCK_NODE,				/* snowflake: state of the node, for the views */
	LEAF_LOCK_COUNT
} LeafLock;

/* Install the hooks; called once, from _PG_init in the postmaster. */
extern void leaf_shmem_install(void);

extern LWLock *leaf_shmem_lock(LeafLock lock);

/*
 * Error 55000 with the line to add, unless the library was preloaded.  Every
 * SQL function that needs shared memory or a setting calls it first.
 */
extern void leaf_require_preload(void);

#endif							/* LEAF_SHMEM_H */
