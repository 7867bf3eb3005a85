/*
 * source_hostname.c
 *		Worker ids from the StatefulSet ordinal in the host's name.
 *
 * Every pod has its own name, standbys too, so this works on a standby.  A
 * server that is being restored from an archive is going to read what it made
 * itself, so it waits for the end of that.
 *
 * The name is read each turn (it costs one system call): a host that is renamed
 * leaves a refusal, or its old id, by itself.
 */
#include "postgres.h"

#include <unistd.h>

#include "snowflake/hostname.h"
#include "snowflake/source.h"

static bool
exists(const char *path)
{
	return access(path, F_OK) == 0;
}

static void
hostname_step(const LeafSourceInput *input, LeafSourceResult *result)
{
	char		hostname[1024];
	LeafRefusal refusal;

	if (gethostname(hostname, sizeof(hostname)) != 0)
	{
		leaf_source_refuse(result, LEAF_REFUSAL_BAD_HOSTNAME, NULL,
						   "The host's name could not be read: %m.");
		return;
	}
	hostname[sizeof(hostname) - 1] = '\0';

	refusal = leaf_hostname_parse(hostname, &result->worker_id);
	if (refusal == LEAF_REFUSAL_BAD_HOSTNAME)
		leaf_source_refuse(result, refusal,
						   "Name the host as a StatefulSet names its pods, with a dash and a number without leading zeros at the end, or use leaf.worker_id_source static or zookeeper.",
						   "The host name \"%.100s\" has no ordinal.", hostname);
	else if (refusal == LEAF_REFUSAL_WORKER_ID_OUT_OF_RANGE)
		leaf_source_refuse(result, refusal,
						   "A cluster has at most 1024 nodes.",
						   "The ordinal of the host name \"%.100s\" is above %d.",
						   hostname, LEAF_MAX_WORKER_ID);
	else if (!input->running && !exists("standby.signal") && exists("recovery.signal"))
		result->state = LEAF_SOURCE_PENDING;
	else
	{
		if (!exists("standby.signal"))
			leaf_source_floor_of_data(result);
		result->state = leaf_source_known_node(input, result->worker_id) ?
			LEAF_SOURCE_READY :
			LEAF_SOURCE_CHECK_CLOCK;
	}
}

const LeafSourceRoutine leaf_source_hostname = {
	.name = "hostname",
	.step = hostname_step,
};
