/*
 * node_data.h
 *		Names and contents of the ZooKeeper nodes that leaf shares with Leaf.
 *
 * Under forever a node is named {host}:{port}-{10-digit sequence}, where the
 * sequence is the worker id; under temporary {host}:{port}.  Both hold
 * {"ip":"...","port":"...","timestamp":ms}.  Leaf accepts no other field
 * under forever, and does not read temporary; there, leaf adds an instance.
 *
 * Pure functions of their arguments; libc only.
 */
#ifndef LEAF_ZOOKEEPER_NODE_DATA_H
#define LEAF_ZOOKEEPER_NODE_DATA_H

#include "postgres.h"

#define LEAF_INSTANCE_LEN 33	/* with the terminator */

/* A node's contents with room for a long host name. */
#define LEAF_NODE_DATA_LEN 1024

typedef struct LeafNodeData
{
	bool		has_timestamp;
	int64		timestamp_ms;	/* that node's clock, ms since 1970 */
	char		instance[LEAF_INSTANCE_LEN];	/* "": none */
} LeafNodeData;

/*
 * Read a node's contents: fields in any order, numbers also as strings,
 * unknown fields of any type skipped.  False if it is not a JSON object; the
 * fields before the damage are set all the same.
 */
extern bool leaf_node_data_read(const char *text, LeafNodeData *data);

/*
 * Write them exactly as Leaf does.  instance NULL: the three fields only.
 * The result is cut off silently at size, which LEAF_NODE_DATA_LEN avoids.
 */
extern void leaf_node_data_write(char *text, size_t size, const char *address,
								 int64 timestamp_ms, const char *instance);

/*
 * Split a name under forever into the length of its address and its
 * sequence.  False if it is not such a name.  A sequence too large for an
 * int comes out as INT_MAX.
 */
extern bool leaf_node_name_parse(const char *name, int *address_len, int *sequence);

#endif							/* LEAF_ZOOKEEPER_NODE_DATA_H */
