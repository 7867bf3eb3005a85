/*
 * leaf.c
 *		Module entry: settings, shared memory, hooks and static workers.
 *
 * Nothing is decided here; each part installs itself.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"

#include "guc.h"
#include "segment/segment.h"
#include "shmem.h"
#include "snowflake/node.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

/*
 * Loaded on demand instead of preloaded, the library has no shared memory and
 * defines nothing; its functions then say so (leaf_require_preload).
 */
void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;

	leaf_guc_define();
	leaf_shmem_install();
	leaf_segment_install();
	leaf_node_install();
}
