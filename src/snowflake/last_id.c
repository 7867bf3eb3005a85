/*
 * last_id.c
 *		Maps the memory of the last snowflake id (see last_id.h).
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "miscadmin.h"
#include "storage/ipc.h"

#include "snowflake/id.h"
#include "snowflake/last_id.h"

#define LAST_ID_MAGIC 0x4c464c31

static LeafLastId *mapped = NULL;
static char name[64];

/* At the end of the postmaster: after a clean stop there is nothing to keep. */
static void
remove_if_clean(int code, Datum arg)
{
	if (mapped->instance == 0)
		(void) shm_unlink(name);
}

/*
 * The object, if it is ours and has its memory for sure: a page that could
 * not be had later would be a SIGBUS.
 */
static LeafLastId *
map_object(void)
{
	LeafLastId *result = NULL;
	struct stat status;
	int			fd;
	int			save_errno;

	fd = shm_open(name, O_RDWR | O_CREAT, S_IRUSR | S_IWUSR);
	if (fd < 0)
		return NULL;
	if (fstat(fd, &status) == 0)
	{
		/* Another name of it is a file that somebody else uses. */
		if (status.st_uid != geteuid() || status.st_nlink != 1 ||
			(status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
			errno = EACCES;
		else
		{
			/* As PostgreSQL does for its own: a signal interrupts it. */
			do
				errno = posix_fallocate(fd, 0, sizeof(LeafLastId));
			while (errno == EINTR);
		}
		if (errno == 0)
		{
			result = mmap(NULL, sizeof(LeafLastId), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
			if (result == MAP_FAILED)
				result = NULL;
		}
	}
	save_errno = errno;
	close(fd);
	errno = save_errno;
	return result;
}

LeafLastId *
leaf_last_id_map(void)
{
#if !defined(PG_HAVE_ATOMIC_U64_SIMULATION) && !defined(EXEC_BACKEND)
	struct stat status;

	/* After a crash of a backend the postmaster still has it. */
	if (mapped != NULL)
		return mapped;
	if (stat(DataDir, &status) == 0)
	{
		/* No two directories of a running kernel have the same of these. */
		snprintf(name, sizeof(name), "/leaf.%llx.%llx",
				 (unsigned long long) status.st_dev, (unsigned long long) status.st_ino);
		mapped = map_object();
	}
	if (mapped == NULL)
	{
		ereport(LOG,
				(errmsg("could not map shared memory object \"%s\": %m", name),
				 errdetail("After a crash of the server, snowflake ids wait until the clock is past the durable time bound.")));
		return NULL;
	}
	if (mapped->magic != LAST_ID_MAGIC)
	{
		mapped->magic = LAST_ID_MAGIC;
		mapped->instance = 0;
		pg_atomic_init_u64(&mapped->word, LEAF_ID_CLOSED);
		pg_atomic_init_u64(&mapped->bound_ms, 0);
	}
	on_proc_exit(remove_if_clean, (Datum) 0);
	return mapped;
#else
	return NULL;
#endif
}
