/*
 * zookeeper_cluster.h
 *		What a node knows of its cluster: the nodes that ZooKeeper has, and how
 *		their clocks and the ensemble's stand to ours.
 *
 * source_zookeeper.c asks, hands the answers in here, and decides by what comes
 * of them.
 */
#ifndef LEAF_SNOWFLAKE_ZOOKEEPER_CLUSTER_H
#define LEAF_SNOWFLAKE_ZOOKEEPER_CLUSTER_H

#include "postgres.h"

#include "snowflake/source.h"
#include "snowflake/zookeeper_plan.h"
#include "zookeeper/session.h"

#define LEAF_ZK_MAX_NODES 4096

typedef struct LeafZkCluster
{
	const char *address;		/* ours */

	LeafZkNode *nodes;			/* LEAF_ZK_MAX_NODES */
	int			nnodes;
	bool		read;			/* all of them were read at least once */
	LeafZkReply *ephemerals;	/* the names under temporary, until forever's */
	int64		next_sequence;	/* of forever, ... */
	int32		forever_version;	/* ... when its data had that version */
	int64		forever_ctime_ms;	/* the ensemble's clock */

	bool		offset_known;
	int64		offset_ms;		/* our clock minus the ensemble's */
	int64		seen_ms;		/* the ensemble's, ... */
	int64		seen_mono_ms;	/* ... and when we saw it */
} LeafZkCluster;

/* In the current memory context. */
extern void leaf_zk_cluster_init(LeafZkCluster *cluster, const char *address);

/*
 * The answers, in this order: the names under temporary (the reply is ours from
 * then on), those under forever, and of each node its contents, or that it is
 * gone.
 */
extern void leaf_zk_cluster_take_ephemerals(LeafZkCluster *cluster, LeafZkReply *reply);
extern void leaf_zk_cluster_list(LeafZkCluster *cluster, const LeafZkReply *reply);
extern void leaf_zk_cluster_read(LeafZkCluster *cluster, int index, const LeafZkReply *reply);

/* A write of our own data, made at wall_ms, was answered. */
extern void leaf_zk_cluster_learn_offset(LeafZkCluster *cluster, const LeafZkStat *stat, int64 wall_ms);

/* The nodes were read, and their clocks can be compared with ours. */
extern bool leaf_zk_cluster_known(const LeafZkCluster *cluster);

/* The ensemble's clock, as far as we can tell without asking. */
extern int64 leaf_zk_cluster_now_ms(const LeafZkCluster *cluster);

extern bool leaf_zk_cluster_has_sequence(const LeafZkCluster *cluster, int sequence);

/* No other node is alive. */
extern bool leaf_zk_cluster_is_alone(const LeafZkCluster *cluster);

/* Rows of leaf_snowflake_peers, LEAF_MAX_PEERS at most; how many. */
extern int	leaf_zk_cluster_peers(const LeafZkCluster *cluster, LeafPeer *rows,
								  bool self_alive, int64 self_report_ms);

#endif							/* LEAF_SNOWFLAKE_ZOOKEEPER_CLUSTER_H */
