/*
 * last_id.h
 *		The last snowflake id, in memory that outlives a crash of the server.
 *
 * The durable time bound makes ids unique whatever happens, at the price of a
 * wait until the clock is past it.  But where only the server crashed and not
 * the machine, what was issued last is known exactly if that one word is still
 * there.  So it lies in a POSIX shared memory object of its own, named after
 * the data directory; the next start finds it, and a restart of the machine
 * removes it.
 *
 * It is never believed alone.  The node worker's state file on disk names the
 * run of the worker that wrote it, and so does this; if they disagree, the word
 * is forgotten and the bound holds.  A word past the bound of the same run is
 * one whose file was put back to an earlier state: those ids exist.
 */
#ifndef LEAF_SNOWFLAKE_LAST_ID_H
#define LEAF_SNOWFLAKE_LAST_ID_H

#include "postgres.h"

#include "port/atomics.h"

/*
 * On a cache line of its own, at the start of a page.  The words are everybody's,
 * as generator.c says.  The instance is written by the node worker alone, and
 * read by it and, when all processes are gone, by the postmaster; the magic is
 * the postmaster's, before there are others.
 */
typedef struct LeafLastId
{
	pg_atomic_uint64 word;
	pg_atomic_uint64 bound_ms;	/* beside it, as they are read together */
	uint64		instance;		/* run of the node worker that opened; 0: none */
	uint32		magic;
} LeafLastId;

/*
 * Map the object of this data directory, which may hold what an earlier run of
 * the server left; its children inherit the mapping.  NULL if that can't be
 * had, and the log says why, or is of no use on this platform.  At the end of
 * the postmaster it is removed if instance is 0.
 */
extern LeafLastId *leaf_last_id_map(void);

#endif							/* LEAF_SNOWFLAKE_LAST_ID_H */
