/*
 * alloc.h
 *		Access to an allocation table.
 */
#ifndef LEAF_ALLOC_H
#define LEAF_ALLOC_H

#include "postgres.h"

#include "utils/relcache.h"

#define LEAF_ALLOC_TABLE "leaf_alloc"

/* The columns of an allocation table that are read or written here. */
enum
{
	LEAF_ATTR_BIZ_TAG = 1,
	LEAF_ATTR_MAX_ID = 2,
	LEAF_ATTR_STEP = 3,
	LEAF_ATTR_UPDATE_TIME = 5,
};

/* What a probe sees of a tag's row. */
typedef struct LeafProbe
{
	bool		exists;			/* a committed row, or one of this transaction */
	bool		locked;			/* somebody holds a lock on it */
	bool		locked_by_us;	/* this transaction keeps it, or the table, from others */
	int			locker_pid;		/* 0: unknown, for example a prepared transaction */
} LeafProbe;

typedef enum LeafProbeResult
{
	LEAF_PROBED,
	LEAF_PROBE_NO_TABLE,
	LEAF_PROBE_TABLE_LOCKED,
} LeafProbeResult;

extern int	leaf_alloc_table_locker(Oid relid);

/* The extension draws from it, and can read it. */
extern bool leaf_alloc_is_intact(Relation rel);

/* Error unless the table is what it was made as: its owner may have altered it. */
extern void leaf_alloc_check_table(Relation rel);

extern LeafProbeResult leaf_alloc_probe(Oid relid, const char *tag, int len, LeafProbe *probe);

typedef enum LeafRowState
{
	LEAF_ROW_UNAVAILABLE,		/* missing, or locked by somebody: probe it */
	LEAF_ROW_READY,				/* locked by us; max_id and step are set */
} LeafRowState;

/* A row to reserve from, or to set. */
typedef struct LeafAllocRow
{
	const char *tag;
	int			len;
	LeafRowState state;
	int64		max_id;
	int32		step;
	int64		new_max_id;		/* equal to max_id: leave the row alone */
	int			caller_index;	/* free for the caller: rows get sorted */
} LeafAllocRow;

extern bool leaf_alloc_open(Oid relid);
extern void leaf_alloc_lock_rows(LeafAllocRow *rows, int n);
extern void leaf_alloc_update_rows(LeafAllocRow *rows, int n);
extern void leaf_alloc_close(void);

/* True while this process itself writes to an allocation table. */
extern bool leaf_alloc_writing(void);

/* The id after a reservation of "want" ids, clamped to the end of bigint. */
static inline int64
leaf_alloc_advance(int64 max_id, int64 want)
{
	/* The difference of a negative max_id and the end needs 64 bits unsigned. */
	uint64		left = (uint64) PG_INT64_MAX - (uint64) max_id;

	return (uint64) want < left ? max_id + want : PG_INT64_MAX;
}

#endif							/* LEAF_ALLOC_H */
