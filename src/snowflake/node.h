/*
 * node.h
 *		The node worker, "leaf node", and what it tells about itself.
 */
#ifndef LEAF_SNOWFLAKE_NODE_H
#define LEAF_SNOWFLAKE_NODE_H

#include "postgres.h"

#include "snowflake/source.h"

typedef enum LeafNodeState
{
	LEAF_NODE_DISABLED,			/* leaf.worker_id_source is none */
	LEAF_NODE_STARTING,
	LEAF_NODE_RUNNING,
	LEAF_NODE_REFUSED,
} LeafNodeState;

/*
 * What the views and the error messages show.  The worker writes it, whole,
 * under LEAF_LOCK_NODE; everybody else copies it under that lock.
 */
typedef struct LeafNodeStatus
{
	LeafNodeState state;
	LeafRefusal refusal;		/* REFUSED only */
	char		detail[LEAF_DETAIL_LEN];
	char		hint[LEAF_DETAIL_LEN];
	int			worker_id;		/* -1: none */
	char		node_address[LEAF_NODE_ADDRESS_LEN];
	bool		offset_known;
	double		clock_offset_ms;	/* own clock minus the peers' mean */
	char		source_state[LEAF_SOURCE_STATE_LEN];
	int64		last_report_ms; /* 0: none */
	char		bound_error[LEAF_DETAIL_LEN];	/* last write of the bound; "" */
} LeafNodeStatus;

extern Size leaf_node_shmem_size(void);
extern void leaf_node_shmem_init(void *ptr, bool found);

/* Is there to be a node worker? */
extern bool leaf_node_wanted(void);

/* Register the worker; called once, from _PG_init in the postmaster. */
extern void leaf_node_install(void);

/* A copy of the status; any process. */
extern void leaf_node_get_status(LeafNodeStatus *status);

/* A copy of the peers, palloc'd; returns how many. */
extern int	leaf_node_get_peers(LeafPeer **rows);

/* Wake the worker's loop; false if there is no worker. */
extern bool leaf_node_wake(void);

/* For the worker alone: be woken from now on, and tell the others. */
extern void leaf_node_attach(void);
extern void leaf_node_publish_status(const LeafNodeStatus *status);
extern void leaf_node_publish_peers(const LeafPeer *rows, int count);

/* The names that leaf_snowflake_status shows. */
extern const char *leaf_node_state_name(LeafNodeState state);
extern const char *leaf_refusal_name(LeafRefusal refusal);

extern PGDLLEXPORT void leaf_node_main(Datum arg);

#endif							/* LEAF_SNOWFLAKE_NODE_H */
