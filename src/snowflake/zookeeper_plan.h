/*
 * zookeeper_plan.h
 *		What a node does about what it found in ZooKeeper: two decisions, as
 *		pure functions.
 *
 * source_zookeeper.c reads the nodes, asks here, acts, and reads again.
 */
#ifndef LEAF_SNOWFLAKE_ZOOKEEPER_PLAN_H
#define LEAF_SNOWFLAKE_ZOOKEEPER_PLAN_H

#include "postgres.h"

#include "snowflake/time_bound.h"

/* The ephemeral under temporary that has our address, if there is one. */
typedef struct LeafZkName
{
	bool		exists;
	bool		this_session;	/* it is our session's */
	bool		past_session;	/* an earlier session's of this process */
	bool		same_instance;	/* written by a server on our data directory */
} LeafZkName;

typedef enum LeafZkNamePlan
{
	LEAF_ZK_NAME_HELD,			/* it is ours, of this session */
	LEAF_ZK_NAME_CREATE,		/* there is none */
	LEAF_ZK_NAME_EVICT,			/* left over by ourselves: replace it */
	LEAF_ZK_NAME_DUPLICATE,		/* another server has our address */
} LeafZkNamePlan;

/* held_before: this process has had the name already. */
extern LeafZkNamePlan leaf_zk_plan_name(const LeafZkName *name, bool held_before);

/* A node under forever. */
typedef struct LeafZkNode
{
	char		address[LEAF_NODE_ADDRESS_LEN];
	int			sequence;		/* the worker id */
	int64		timestamp_ms;	/* last report, that node's clock; 0: unknown */
	int64		mtime_ms;		/* the same moment, the ensemble's clock */
	int64		created_txn;	/* order of creation */
	int32		version;
	bool		has_ephemeral;	/* a node of that address under temporary */
} LeafZkNode;

typedef struct LeafZkPlanInput
{
	const char *address;		/* ours */
	const LeafZkNode *nodes;
	int			nnodes;
	int64		next_sequence;	/* what ZooKeeper would give a new node */
	int			held_id;		/* worker id that is ours by our own memory; -1 */
	int64		ensemble_now_ms;
	int64		ttl_ms;			/* 0: ids are never taken over */
} LeafZkPlanInput;

typedef enum LeafZkIdPlan
{
	LEAF_ZK_ID_USE,				/* nodes[node] is ours */
	LEAF_ZK_ID_RESTORE,			/* our node is gone: make it again, same id */
	LEAF_ZK_ID_CREATE,			/* new in the cluster */
	LEAF_ZK_ID_TAKE_OVER,		/* new; nodes[node] has outlived its time */
	LEAF_ZK_ID_OUT_OF_RANGE,	/* new; no id is left */
} LeafZkIdPlan;

/*
 * node is the index that the plan is about, -1 if none.  The held id, if it
 * is not the one that comes out, belongs to another node now.
 */
extern LeafZkIdPlan leaf_zk_plan_id(const LeafZkPlanInput *input, int *node);

#endif							/* LEAF_SNOWFLAKE_ZOOKEEPER_PLAN_H */
