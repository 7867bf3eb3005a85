/*
 * change.h
 *		What the current transaction has done to its allocation table.
 */
#ifndef LEAF_CHANGE_H
#define LEAF_CHANGE_H

#include "postgres.h"

/* What the current transaction has done to the row of a tag. */
typedef enum LeafChangeKind
{
	LEAF_CHANGE_NONE,
	LEAF_CHANGE_INSERTED,		/* nobody else can see it: ids come from the row */
	LEAF_CHANGE_UPDATED,		/* or replaced: there is a committed row, and
								 * it is locked by us */
	LEAF_CHANGE_DELETED,
} LeafChangeKind;

/* True if this transaction changed an allocation table: ask leaf_change_kind. */
extern bool leaf_change_any;

extern LeafChangeKind leaf_change_kind(Oid relid, const char *tag, int len);
extern bool leaf_change_draw(Oid relid, const char *tag, int len, int64 count, int64 *start);

/* This transaction is about to drop the table. */
extern void leaf_change_dropped(Oid relid);

#endif							/* LEAF_CHANGE_H */
