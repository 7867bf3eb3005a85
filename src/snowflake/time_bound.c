/*
 * time_bound.c
 *		Reads and writes the durable time bound (see time_bound.h).
 *
 * One small file: a magic number, the contents, a CRC.  It is written to a
 * temporary file, flushed, renamed over the old one, and the folder is
 * flushed, so that at any moment the one or the other is there whole.
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "port/pg_crc32c.h"
#include "storage/fd.h"

#include "snowflake/time_bound.h"

#define LEAF_TIME_BOUND_TMP LEAF_TIME_BOUND_PATH ".tmp"
#define LEAF_TIME_BOUND_MAGIC 0x4c454146	/* "LEAF" */
#define LEAF_TIME_BOUND_VERSION 1

typedef struct DiskFile
{
	uint32		magic;
	uint32		version;
	LeafTimeBoundFile content;
	pg_crc32c	crc;			/* of all before it */
} DiskFile;

static pg_crc32c
compute_crc(const DiskFile *disk)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, disk, offsetof(DiskFile, crc));
	FIN_CRC32C(crc);
	return crc;
}

LeafTimeBoundRead
leaf_time_bound_read(LeafTimeBoundFile *file, char **error)
{
	DiskFile	disk;
	int			fd;
	int			nread;
	bool		longer = false;

	fd = OpenTransientFile(LEAF_TIME_BOUND_PATH, O_RDONLY | PG_BINARY);
	if (fd < 0)
	{
		if (errno == ENOENT)
			return LEAF_TIME_BOUND_READ_MISSING;
		*error = psprintf("The file \"%s\" could not be opened: %m.", LEAF_TIME_BOUND_PATH);
		return LEAF_TIME_BOUND_READ_INVALID;
	}

	errno = 0;
	nread = read(fd, &disk, sizeof(disk));
	if (nread < 0)
		*error = psprintf("The file \"%s\" could not be read: %m.", LEAF_TIME_BOUND_PATH);
	else if (nread == sizeof(disk))
	{
		char		rest;

		longer = read(fd, &rest, 1) != 0;
	}
	CloseTransientFile(fd);
	if (nread < 0)
		return LEAF_TIME_BOUND_READ_INVALID;

	if (nread != sizeof(disk) || longer)
		*error = psprintf("The file \"%s\" does not have its %zu bytes.", LEAF_TIME_BOUND_PATH,
						  sizeof(disk));
	else if (disk.magic != LEAF_TIME_BOUND_MAGIC || disk.version != LEAF_TIME_BOUND_VERSION)
		*error = psprintf("The file \"%s\" is not a state file of this version.", LEAF_TIME_BOUND_PATH);
	else if (!EQ_CRC32C(disk.crc, compute_crc(&disk)))
		*error = psprintf("The file \"%s\" is damaged: its checksum is wrong.", LEAF_TIME_BOUND_PATH);
	else
	{
		*file = disk.content;
		return LEAF_TIME_BOUND_READ_OK;
	}
	return LEAF_TIME_BOUND_READ_INVALID;
}

bool
leaf_time_bound_write(const LeafTimeBoundFile *file, char **error)
{
	DiskFile	disk;
	int			fd;
	int			save_errno;
	bool		failed;

	/* No padding with chance contents under the checksum. */
	memset(&disk, 0, sizeof(disk));
	disk.magic = LEAF_TIME_BOUND_MAGIC;
	disk.version = LEAF_TIME_BOUND_VERSION;
	disk.content.identity.source = file->identity.source;
	disk.content.identity.epoch_ms = file->identity.epoch_ms;
	strlcpy(disk.content.identity.cluster_name, file->identity.cluster_name, LEAF_CLUSTER_NAME_LEN);
	strlcpy(disk.content.identity.node_address, file->identity.node_address, LEAF_NODE_ADDRESS_LEN);
	disk.content.worker_id = file->worker_id;
	disk.content.clean = file->clean;
	disk.content.unused = file->unused;
	disk.content.instance = file->instance;
	disk.content.bound_ms = file->bound_ms;
	disk.content.written_at_ms = file->written_at_ms;
	disk.crc = compute_crc(&disk);

	fd = OpenTransientFile(LEAF_TIME_BOUND_TMP, O_WRONLY | O_CREAT | O_TRUNC | PG_BINARY);
	if (fd < 0)
	{
		*error = psprintf("The file \"%s\" could not be created: %m.", LEAF_TIME_BOUND_TMP);
		return false;
	}

	errno = 0;
	failed = write(fd, &disk, sizeof(disk)) != sizeof(disk);
	if (failed && errno == 0)
		errno = ENOSPC;			/* a short write sets none */
	failed = failed || pg_fsync(fd) != 0;
	save_errno = errno;
	if (CloseTransientFile(fd) != 0 && !failed)
	{
		failed = true;
		save_errno = errno;
	}
	errno = save_errno;
	if (failed)
	{
		*error = psprintf("The file \"%s\" could not be written: %m.", LEAF_TIME_BOUND_TMP);
		return false;
	}

	/*
	 * Not durable_rename, which flushes both files before and after: ids stop
	 * when this takes longer than the bound is ahead, so it takes the two
	 * flushes that it needs.  Nor does it log: the caller has one alarm for a
	 * whole streak of failures.
	 */
	if (rename(LEAF_TIME_BOUND_TMP, LEAF_TIME_BOUND_PATH) != 0 ||
		fsync_fname_ext(".", true, false, DEBUG5) != 0)
	{
		*error = psprintf("The file \"%s\" could not be put on disk: %m.", LEAF_TIME_BOUND_PATH);
		return false;
	}
	return true;
}

bool
leaf_time_bound_is_ours(const LeafTimeBoundFile *file, const LeafNodeIdentity *self)
{
	return file->identity.source == self->source &&
		strcmp(file->identity.cluster_name, self->cluster_name) == 0 &&
		strcmp(file->identity.node_address, self->node_address) == 0;
}

/*
 * Whom does a bound concern?
 *
 * - The worker id that it was written for, whoever uses that id now: a
 *   standby promoted in the place of its primary, a pod that came back with
 *   another address, the same id from another source.  Its ids lie below the
 *   bound.
 * - The node that wrote it, under any worker id: on one server ids only grow.
 * - Nobody else.  A copy of the data directory that starts as another node
 *   with another worker id can't collide with those ids, and must not
 *   inherit a wrong clock.
 *
 * Ids carry the time since the epoch, so what must not come twice is that
 * distance: under another epoch the same distance is another time.  An epoch
 * moved forward by a year can therefore issue nothing for a year, and one
 * moved back starts at once.
 */
int64
leaf_time_bound_floor(const LeafTimeBoundFile *file, const LeafNodeIdentity *self, int worker_id)
{
	if (file->worker_id != worker_id &&
		strcmp(file->identity.node_address, self->node_address) != 0)
		return 0;

	return file->bound_ms - file->identity.epoch_ms + self->epoch_ms;
}
