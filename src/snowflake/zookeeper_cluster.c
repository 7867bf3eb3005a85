/*
 * zookeeper_cluster.c
 *		The nodes of a cluster as ZooKeeper has them (see zookeeper_cluster.h).
 */
#include "postgres.h"

#include "guc.h"
#include "snowflake/clock.h"
#include "snowflake/zookeeper_cluster.h"
#include "zookeeper/node_data.h"

/* Without an ephemeral (Leaf has none) a node is alive while it reports. */
#define ALIVE_REPORTS 3
#define ALIVE_AT_LEAST_MS 10000

void
leaf_zk_cluster_init(LeafZkCluster *cluster, const char *address)
{
	memset(cluster, 0, sizeof(*cluster));
	cluster->address = pstrdup(address);
	cluster->nodes = palloc(LEAF_ZK_MAX_NODES * sizeof(LeafZkNode));
}

static int
compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

void
leaf_zk_cluster_take_ephemerals(LeafZkCluster *cluster, LeafZkReply *reply)
{
	free(cluster->ephemerals);
	cluster->ephemerals = reply;
	qsort(reply->names, reply->nnames, sizeof(char *), compare_names);
}

static bool
has_ephemeral(const LeafZkCluster *cluster, const char *address)
{
	const LeafZkReply *reply = cluster->ephemerals;

	return reply != NULL &&
		bsearch(&address, reply->names, reply->nnames, sizeof(char *), compare_names) != NULL;
}

void
leaf_zk_cluster_list(LeafZkCluster *cluster, const LeafZkReply *reply)
{
	/*
	 * The counter that names sequential nodes counts creations; the stat
	 * counts creations and deletions.
	 */
	cluster->next_sequence = ((int64) reply->stat.child_changes + reply->stat.children) / 2;
	cluster->forever_version = reply->stat.version;
	cluster->forever_ctime_ms = reply->stat.ctime_ms;

	cluster->nnodes = 0;
	for (int i = 0; i < reply->nnames && cluster->nnodes < LEAF_ZK_MAX_NODES; i++)
	{
		LeafZkNode *node = &cluster->nodes[cluster->nnodes];
		int			address_len;
		int			sequence;

		if (!leaf_node_name_parse(reply->names[i], &address_len, &sequence) ||
			address_len >= sizeof(node->address) || sequence > LEAF_MAX_WORKER_ID)
			continue;
		memset(node, 0, sizeof(*node));
		memcpy(node->address, reply->names[i], address_len);
		node->sequence = sequence;
		node->has_ephemeral = has_ephemeral(cluster, node->address);
		cluster->nnodes++;
	}
	free(cluster->ephemerals);
	cluster->ephemerals = NULL;
}

void
leaf_zk_cluster_read(LeafZkCluster *cluster, int index, const LeafZkReply *reply)
{
	LeafZkNode *node = &cluster->nodes[index];
	LeafNodeData data;

	if (reply->code == LEAF_ZK_NO_NODE)
	{
		node->sequence = -1;	/* gone since it was listed */
		return;
	}

	/* Unreadable: it was alive when it was written, at least. */
	leaf_node_data_read(reply->text, &data);
	node->timestamp_ms = data.has_timestamp ? data.timestamp_ms : reply->stat.mtime_ms;
	node->mtime_ms = reply->stat.mtime_ms;
	node->created_txn = reply->stat.created_txn;
	node->version = reply->stat.version;
}

void
leaf_zk_cluster_learn_offset(LeafZkCluster *cluster, const LeafZkStat *stat, int64 wall_ms)
{
	cluster->offset_ms = wall_ms - stat->mtime_ms;
	cluster->seen_ms = stat->mtime_ms;
	cluster->seen_mono_ms = leaf_clock_mono_ms();
	cluster->offset_known = true;
}

bool
leaf_zk_cluster_known(const LeafZkCluster *cluster)
{
	return cluster->read && cluster->offset_known;
}

/* Our clock may have been moved meanwhile, so the monotonic one carries it on. */
int64
leaf_zk_cluster_now_ms(const LeafZkCluster *cluster)
{
	return cluster->seen_ms + leaf_clock_mono_ms() - cluster->seen_mono_ms;
}

bool
leaf_zk_cluster_has_sequence(const LeafZkCluster *cluster, int sequence)
{
	for (int i = 0; i < cluster->nnodes; i++)
		if (cluster->nodes[i].sequence == sequence)
			return true;
	return false;
}

static bool
is_self(const LeafZkCluster *cluster, const LeafZkNode *node)
{
	return strcmp(node->address, cluster->address) == 0;
}

static bool
is_alive(const LeafZkCluster *cluster, const LeafZkNode *node)
{
	int64		limit = Max((int64) ALIVE_REPORTS * leaf_guc_time_report_interval,
							ALIVE_AT_LEAST_MS);

	return node->has_ephemeral ||
		(cluster->offset_known &&
		 leaf_zk_cluster_now_ms(cluster) - node->mtime_ms < limit);
}

bool
leaf_zk_cluster_is_alone(const LeafZkCluster *cluster)
{
	for (int i = 0; i < cluster->nnodes; i++)
	{
		const LeafZkNode *node = &cluster->nodes[i];

		if (!is_self(cluster, node) && node->sequence >= 0 && is_alive(cluster, node))
			return false;
	}
	return true;
}

int
leaf_zk_cluster_peers(const LeafZkCluster *cluster, LeafPeer *rows,
					  bool self_alive, int64 self_report_ms)
{
	int			nrows = 0;

	for (int i = 0; i < cluster->nnodes && nrows < LEAF_MAX_PEERS; i++)
	{
		const LeafZkNode *node = &cluster->nodes[i];
		LeafPeer   *row = &rows[nrows];

		if (node->sequence < 0)
			continue;
		memset(row, 0, sizeof(*row));
		strlcpy(row->node_address, node->address, sizeof(row->node_address));
		row->worker_id = node->sequence;
		row->last_report_ms = node->timestamp_ms;
		row->alive = is_alive(cluster, node);
		row->is_self = is_self(cluster, node);
		row->offset_known = cluster->offset_known && node->timestamp_ms != 0;
		if (row->is_self)
		{
			row->alive = self_alive;
			row->last_report_ms = Max(row->last_report_ms, self_report_ms);
		}
		else if (row->offset_known)
			row->offset_ms = node->timestamp_ms - node->mtime_ms - cluster->offset_ms;
		nrows++;
	}
	return nrows;
}
