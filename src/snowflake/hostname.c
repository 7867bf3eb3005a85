/*
 * hostname.c
 *		Finds the worker id in a host's name.
 *
 * A StatefulSet names its pods <name>-0, <name>-1, … and that is the whole
 * format: the digits after the last dash of the first label ("leaf-3",
 * "leaf-3.leaf.default.svc.cluster.local", "my-leaf-3").  Leading zeros are
 * refused: no StatefulSet makes them, and leaf-3 and leaf-03 would be one
 * worker.  Uses nothing but its argument and the C library.
 */
#include "postgres.h"

#include "snowflake/hostname.h"

LeafRefusal
leaf_hostname_parse(const char *hostname, int *worker_id)
{
	size_t		label_len = strcspn(hostname, ".");
	size_t		start = label_len;
	int			id = 0;

	while (start > 0 && hostname[start - 1] >= '0' && hostname[start - 1] <= '9')
		start--;

	/* digits, a dash before them, a name before that */
	if (start == label_len || start < 2 || hostname[start - 1] != '-')
		return LEAF_REFUSAL_BAD_HOSTNAME;
	if (hostname[start] == '0' && label_len - start > 1)
		return LEAF_REFUSAL_BAD_HOSTNAME;

	for (size_t i = start; i < label_len; i++)
	{
		id = id * 10 + (hostname[i] - '0');
		if (id > LEAF_MAX_WORKER_ID)
			return LEAF_REFUSAL_WORKER_ID_OUT_OF_RANGE;
	}
	*worker_id = id;
	return LEAF_REFUSAL_NONE;
}
