/*
 * tag.h
 *		What names a tag: a row of an allocation table of a database.
 */
#ifndef LEAF_TAG_H
#define LEAF_TAG_H

#include "postgres.h"

#include "common/hashfn.h"
#include "utils/palloc.h"

/* 128 characters of four bytes: the widest of any server encoding. */
#define LEAF_TAG_MAX_CHARS 128
#define LEAF_TAG_MAX_BYTES (LEAF_TAG_MAX_CHARS * 4)

/* Bytes past len are not part of the key and not set. */
typedef struct LeafTagKey
{
	Oid			dboid;
	Oid			relid;			/* the allocation table */
	uint16		len;
	char		tag[LEAF_TAG_MAX_BYTES];
} LeafTagKey;

/*
 * False if the tag is too long to be one, so that no row can have it.  (In
 * a single-byte encoding more than 128 bytes pass here, and are not found.)
 */
static inline bool
leaf_tag_key_set(LeafTagKey *key, Oid dboid, Oid relid, const char *tag, int len)
{
	if (len > LEAF_TAG_MAX_BYTES)
		return false;
	key->dboid = dboid;
	key->relid = relid;
	key->len = (uint16) len;
	memcpy(key->tag, tag, len);
	return true;
}

/*
 * memcmp() == 0 for the hot path: a call into another library costs a statement
 * more than the few words to compare, since its code is not in the cache.
 */
static inline bool
leaf_tag_equal(const char *a, const char *b, int len)
{
	for (; len >= (int) sizeof(uint64); len -= sizeof(uint64))
	{
		uint64		left;
		uint64		right;

		memcpy(&left, a, sizeof(left));
		memcpy(&right, b, sizeof(right));
		if (left != right)
			return false;
		a += sizeof(uint64);
		b += sizeof(uint64);
	}
	for (; len > 0; len--)
		if (*a++ != *b++)
			return false;
	return true;
}

static inline uint32
leaf_tag_hash(const char *tag, int len)
{
	return hash_bytes((const unsigned char *) tag, len);
}

/*
 * The same by reference, within one database: the key of the hash tables that
 * a backend keeps for itself.
 */
typedef struct LeafTagName
{
	Oid			relid;
	int			len;
	const char *tag;
} LeafTagName;

static inline uint32
leaf_tag_name_hash(LeafTagName name)
{
	return leaf_tag_hash(name.tag, name.len) ^ name.relid;
}

static inline bool
leaf_tag_name_equal(LeafTagName a, LeafTagName b)
{
	return a.len == b.len && a.relid == b.relid && memcmp(a.tag, b.tag, a.len) == 0;
}

/* A copy that lives in the given context. */
static inline LeafTagName
leaf_tag_name_copy(LeafTagName name, MemoryContext context)
{
	char	   *tag = MemoryContextAlloc(context, name.len + 1);

	memcpy(tag, name.tag, name.len);
	tag[name.len] = '\0';
	name.tag = tag;
	return name;
}

#endif							/* LEAF_TAG_H */
