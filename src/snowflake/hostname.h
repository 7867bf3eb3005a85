/*
 * hostname.h
 *		The worker id in a host's name.
 */
#ifndef LEAF_SNOWFLAKE_HOSTNAME_H
#define LEAF_SNOWFLAKE_HOSTNAME_H

#include "snowflake/source.h"

/*
 * The ordinal of a StatefulSet's pod: LEAF_REFUSAL_NONE and *worker_id, or
 * bad_hostname where there is none, or worker_id_out_of_range.  See
 * hostname.c for the rules.
 */
extern LeafRefusal leaf_hostname_parse(const char *hostname, int *worker_id);

#endif							/* LEAF_SNOWFLAKE_HOSTNAME_H */
