/*
 * guc.h
 *		The settings of leaf: one variable each, and the bounds and units
 *		that the rest of the code may rely on.
 */
#ifndef LEAF_GUC_H
#define LEAF_GUC_H

#include "utils/guc.h"

/* Where a node's worker id comes from (leaf.worker_id_source). */
typedef enum LeafWorkerIdSource
{
	LEAF_SOURCE_NONE,
	LEAF_SOURCE_STATIC,
	LEAF_SOURCE_HOSTNAME,
	LEAF_SOURCE_ZOOKEEPER,
} LeafWorkerIdSource;

/* First sequence of a millisecond (leaf.sequence_start). */
typedef enum LeafSequenceStart
{
	LEAF_SEQUENCE_RANDOM,
	LEAF_SEQUENCE_ZERO,
} LeafSequenceStart;

/* both generators */
extern int	leaf_guc_wait_timeout;	/* ms */

/* segment */
extern int	leaf_guc_max_tags;
extern int	leaf_guc_prefetch_threshold;	/* percent of a segment */
extern int	leaf_guc_segment_duration;	/* s; 0: the step never adapts */
extern int	leaf_guc_max_step;

/* snowflake */
extern int	leaf_guc_worker_id_source;	/* LeafWorkerIdSource */
extern int	leaf_guc_worker_id; /* -1: not set */
extern char *leaf_guc_epoch;	/* the text; the number is below */
extern int64 leaf_guc_epoch_ms; /* ms since 1970 */
extern int	leaf_guc_sequence_start;	/* LeafSequenceStart */
extern int	leaf_guc_clock_backward_limit;	/* ms */
extern int	leaf_guc_clock_drift_limit; /* ms */
extern int	leaf_guc_time_report_interval;	/* ms */
extern int	leaf_guc_time_bound_ahead;	/* ms */
extern char *leaf_guc_node_address;
extern char *leaf_guc_cluster_name;
extern char *leaf_guc_peers;

/* zookeeper */
extern char *leaf_guc_zookeeper_servers;
extern int	leaf_guc_zookeeper_session_timeout; /* ms */
extern char *leaf_guc_zookeeper_auth;
extern char *leaf_guc_zookeeper_tls;
extern int	leaf_guc_worker_id_ttl; /* s; 0: ids are never taken over */

extern const struct config_enum_entry leaf_worker_id_source_options[];

extern void leaf_guc_define(void);

#endif							/* LEAF_GUC_H */
