/*
 * alloc.c
 *		Access to an allocation table, by the refill worker and by a
 *		transaction that has created its tag itself.
 *
 * Two ways in.  A probe reads the row of one tag through the primary key,
 * with the newest snapshot whatever the isolation level, and needs no
 * privileges: it only says whether there is such a tag and who is in the way.
 *
 * A reservation locks the rows of several tags, skipping those that somebody
 * else holds, and moves their max_id.  It runs as the owner of the table, in
 * a security-restricted context, with a search_path of pg_catalog alone and
 * with session_replication_role = replica, which leaves out every trigger and
 * rule that is not ENABLE ALWAYS; only the owner can make one so.  Nothing that
 * another user hung on the table runs with more rights than his own.
 *
 * The locks of the table and of its indexes are never waited for, but asked for
 * again after a pause by whoever called: a wait in the lock manager can't be
 * bounded here, and the refill worker has other tags to serve.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/multixact.h"
#include "access/relation.h"
#include "access/subtrans.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "segment/alloc.h"

/* One reservation under way in this process, between open and close. */
typedef struct OpenTable
{
	char	   *name;			/* quoted and qualified */
	Oid			saved_userid;
	int			saved_sec_context;
	int			guc_nest_level;
} OpenTable;

static OpenTable open_table;

/* True while our own statement runs. */
static bool writing = false;

static const struct
{
	int			attribute;
	const char *name;
	Oid			type;
} columns[] = {
	{LEAF_ATTR_BIZ_TAG, "biz_tag", VARCHAROID},
	{LEAF_ATTR_MAX_ID, "max_id", INT8OID},
	{LEAF_ATTR_STEP, "step", INT4OID},
	{LEAF_ATTR_UPDATE_TIME, "update_time", TIMESTAMPTZOID},
};

/* The first column that is not in its place, as an index; -1: all are. */
static int
missing_column(Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);

	for (int i = 0; i < lengthof(columns); i++)
	{
		Form_pg_attribute attribute = NULL;

		if (columns[i].attribute <= desc->natts)
			attribute = TupleDescAttr(desc, columns[i].attribute - 1);
		if (attribute == NULL || attribute->attisdropped ||
			attribute->atttypid != columns[i].type ||
			strcmp(NameStr(attribute->attname), columns[i].name) != 0)
			return i;
	}
	return -1;
}

void
leaf_alloc_check_table(Relation rel)
{
	int			i = missing_column(rel);

	/* A probe reads its tuples itself. */
	if (rel->rd_rel->relam != HEAP_TABLE_AM_OID)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" does not have the access method heap",
						RelationGetRelationName(rel)),
				 errhint("ALTER TABLE %s SET ACCESS METHOD heap.", RelationGetRelationName(rel))));
	if (i >= 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" has no column \"%s\" of type %s in its place",
						RelationGetRelationName(rel), columns[i].name,
						format_type_be(columns[i].type)),
				 errhint("Add columns to an allocation table as you like, but leave these as they are.")));
}

/*
 * Who holds the lock that "xmax" of a tuple stands for.  A foreign key's lock
 * is in nobody's way: a reservation leaves the key alone.
 */
static void
find_locker(TransactionId xmax, uint16 infomask, LeafProbe *probe)
{
	TransactionId holder = InvalidTransactionId;

	if ((infomask & HEAP_XMAX_INVALID) || HEAP_XMAX_IS_KEYSHR_LOCKED(infomask))
		return;
	if (infomask & HEAP_XMAX_IS_MULTI)
	{
		MultiXactMember *members;
		int			n = GetMultiXactIdMembers(xmax, &members, false,
											  HEAP_XMAX_IS_LOCKED_ONLY(infomask));

		for (int i = 0; i < n; i++)
			if (members[i].status != MultiXactStatusForKeyShare &&
				TransactionIdIsInProgress(members[i].xid))
				holder = members[i].xid;
	}
	else if (TransactionIdIsInProgress(xmax))
		holder = xmax;

	if (!TransactionIdIsValid(holder))
		return;
	probe->locked = true;
	probe->locked_by_us = TransactionIdIsCurrentTransactionId(holder);
	if (TransactionIdFollowsOrEquals(holder, TransactionXmin))
		holder = SubTransGetTopmostTransaction(holder);
	probe->locker_pid = BackendXidGetPid(holder);
}

/*
 * A process whose lock on the table keeps a reservation out; 0: none is left.
 */
int
leaf_alloc_table_locker(Oid relid)
{
	LOCKTAG		tag;
	VirtualTransactionId *holder;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, relid);
	for (holder = GetLockConflicts(&tag, RowExclusiveLock, NULL);
		 VirtualTransactionIdIsValid(*holder); holder++)
	{
		PGPROC	   *proc = leaf_vxid_proc(*holder);

		if (proc != NULL)
			return proc->pid;
	}
	return 0;
}

/* The schema of the extension; invalid if it is gone. */
static Oid
extension_schema(void)
{
	Relation	extensions = table_open(ExtensionRelationId, AccessShareLock);
	Oid			schema = InvalidOid;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber, F_NAMEEQ,
				CStringGetDatum("leaf"));
	scan = systable_beginscan(extensions, ExtensionNameIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		schema = ((Form_pg_extension) GETSTRUCT(tuple))->extnamespace;
	systable_endscan(scan);
	table_close(extensions, AccessShareLock);
	return schema;
}

/*
 * Is it the table that the extension draws from?  One that was renamed or moved
 * away may have a successor, which gives out the same ids.
 */
static bool
is_alloc_table(Relation rel)
{
	return strcmp(RelationGetRelationName(rel), LEAF_ALLOC_TABLE) == 0 &&
		RelationGetNamespace(rel) == extension_schema();
}

bool
leaf_alloc_is_intact(Relation rel)
{
	return is_alloc_table(rel) && missing_column(rel) < 0;
}

/*
 * Look at the row of a tag.
 */
LeafProbeResult
leaf_alloc_probe(Oid relid, const char *tag, int len, LeafProbe *probe)
{
	Relation	rel;
	Oid			index;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	memset(probe, 0, sizeof(*probe));

	if (!ConditionalLockRelationOid(relid, AccessShareLock))
		return LEAF_PROBE_TABLE_LOCKED;
	rel = try_relation_open(relid, NoLock);
	if (rel == NULL)
	{
		UnlockRelationOid(relid, AccessShareLock);
		return LEAF_PROBE_NO_TABLE;
	}

	if (!is_alloc_table(rel))
	{
		relation_close(rel, AccessShareLock);
		return LEAF_PROBE_NO_TABLE;
	}

	leaf_alloc_check_table(rel);
	index = leaf_primary_key_index(rel);
	/* A REINDEX, say, has the index for itself, but not the table. */
	if (OidIsValid(index) && !ConditionalLockRelationOid(index, AccessShareLock))
	{
		relation_close(rel, AccessShareLock);
		return LEAF_PROBE_TABLE_LOCKED;
	}
	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_TEXTEQ,
				PointerGetDatum(cstring_to_text_with_len(tag, len)));
	/* The catalog snapshot is taken anew for any table that is no catalog. */
	scan = systable_beginscan(rel, index, OidIsValid(index), NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		Buffer		buffer = ((BufferHeapTupleTableSlot *) scan->slot)->buffer;
		TransactionId xmax;
		uint16		infomask;

		/* The two belong together. */
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		xmax = HeapTupleHeaderGetRawXmax(tuple->t_data);
		infomask = tuple->t_data->t_infomask;
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);

		probe->exists = true;
		find_locker(xmax, infomask, probe);
		/* What we wrote ourselves, nobody else can lock, nor see. */
		probe->locked_by_us |= TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
	}
	systable_endscan(scan);
	probe->locked_by_us |= CheckRelationLockedByMe(rel, ShareLock, true);
	if (OidIsValid(index))
		UnlockRelationOid(index, AccessShareLock);
	relation_close(rel, AccessShareLock);
	return LEAF_PROBED;
}

bool
leaf_alloc_writing(void)
{
	return writing;
}

/*
 * Begin a reservation in the current transaction.  False if the table or an
 * index of it is locked by somebody, or if it is gone.  An error in between
 * needs no clean-up here: the abort of the (sub)transaction restores user,
 * settings and SPI.
 */
bool
leaf_alloc_open(Oid relid)
{
	Relation	rel;
	ListCell   *cell;

	/* A trigger of the owner's may draw ids, too. */
	if (writing)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot reserve ids while ids are being reserved"),
				 errhint("Look for a trigger of \"%s\" that draws ids.", LEAF_ALLOC_TABLE)));

	if (!ConditionalLockRelationOid(relid, RowExclusiveLock))
		return false;
	rel = try_relation_open(relid, NoLock);
	if (rel == NULL)
	{
		UnlockRelationOid(relid, RowExclusiveLock);
		return false;
	}
	if (!is_alloc_table(rel))
	{
		relation_close(rel, RowExclusiveLock);
		return false;
	}
	foreach(cell, RelationGetIndexList(rel))
	{
		if (!ConditionalLockRelationOid(lfirst_oid(cell), RowExclusiveLock))
		{
			relation_close(rel, RowExclusiveLock);
			return false;
		}
	}

	leaf_alloc_check_table(rel);
	GetUserIdAndSecContext(&open_table.saved_userid, &open_table.saved_sec_context);
	SetUserIdAndSecContext(rel->rd_rel->relowner,
						   open_table.saved_sec_context | SECURITY_RESTRICTED_OPERATION |
							   SECURITY_LOCAL_USERID_CHANGE);
	open_table.guc_nest_level = NewGUCNestLevel();
	(void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET,
							 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	(void) set_config_option("session_replication_role", "replica", PGC_SUSET,
							 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);

	/* Before a commit, and in a worker, nobody else has set one. */
	PushActiveSnapshot(GetTransactionSnapshot());
	SPI_connect();
	open_table.name = quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
												 RelationGetRelationName(rel));
	relation_close(rel, NoLock);
	return true;
}

void
leaf_alloc_close(void)
{
	SPI_finish();
	PopActiveSnapshot();
	AtEOXact_GUC(true, open_table.guc_nest_level);
	SetUserIdAndSecContext(open_table.saved_userid, open_table.saved_sec_context);
}

static int
compare_rows(const void *left, const void *right)
{
	const LeafAllocRow *a = left;
	const LeafAllocRow *b = right;
	int			order = memcmp(a->tag, b->tag, Min(a->len, b->len));

	return order != 0 ? order : a->len - b->len;
}

/* How many rows of the last result are true. */
static uint64
count_true(void)
{
	uint64		count = 0;

	for (uint64 i = 0; i < SPI_processed; i++)
	{
		bool		isnull;
		Datum		value = SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &isnull);

		count += !isnull && DatumGetBool(value);
	}
	return count;
}

/*
 * Run one statement for some of the rows: $1 is the array of their tags, $2
 * that of their new max_id.
 */
static void
execute_for_rows(const char *template, LeafAllocRow *rows, int n,
				 bool (*wanted) (const LeafAllocRow *row), int expected)
{
	Datum	   *tags = palloc(sizeof(Datum) * n);
	Datum	   *max_ids = palloc(sizeof(Datum) * n);
	int			count = 0;
	Oid			types[2] = {TEXTARRAYOID, INT8ARRAYOID};
	Datum		values[2];
	volatile int result;

	for (int i = 0; i < n; i++)
	{
		if (!wanted(&rows[i]))
			continue;
		tags[count] = PointerGetDatum(cstring_to_text_with_len(rows[i].tag, rows[i].len));
		max_ids[count++] = Int64GetDatum(rows[i].new_max_id);
	}
	if (count == 0)
		return;
	values[0] = PointerGetDatum(construct_array(tags, count, TEXTOID, -1, false, TYPALIGN_INT));
	values[1] = PointerGetDatum(construct_array(max_ids, count, INT8OID, sizeof(int64),
												FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
	writing = true;
	PG_TRY();
	{
		result = SPI_execute_with_args(psprintf(template, open_table.name), 2,
									   types, values, NULL, false, 0);
	}
	PG_FINALLY();
	{
		writing = false;
	}
	PG_END_TRY();
	if (result != expected)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not access allocation table %s: %s",
						open_table.name, SPI_result_code_string(result))));

	/* What is not written is not reserved. */
	if (result == SPI_OK_UPDATE_RETURNING && count_true() != (uint64) count)
		ereport(ERROR,
				(errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
				 errmsg("could not move max_id in allocation table %s", open_table.name),
				 errhint("Remove the trigger, rule or policy of the table that keeps max_id from being updated.")));
}

static bool
any_row(const LeafAllocRow *row)
{
	return true;
}

static bool
row_moves(const LeafAllocRow *row)
{
	return row->state == LEAF_ROW_READY && row->new_max_id != row->max_id;
}

/*
 * Lock the rows of some tags and read them.  Sorts "rows".  Those that come
 * back as LEAF_ROW_UNAVAILABLE are missing or locked by somebody else; they
 * are not waited for.
 */
void
leaf_alloc_lock_rows(LeafAllocRow *rows, int n)
{
	qsort(rows, n, sizeof(*rows), compare_rows);
	for (int i = 0; i < n; i++)
		rows[i].state = LEAF_ROW_UNAVAILABLE;

	execute_for_rows("SELECT biz_tag::text, max_id, step FROM ONLY %s"
					 " WHERE biz_tag = ANY ($1)"
					 " FOR NO KEY UPDATE SKIP LOCKED",
					 rows, n, any_row, SPI_OK_SELECT);

	for (uint64 i = 0; i < SPI_processed; i++)
	{
		HeapTuple	tuple = SPI_tuptable->vals[i];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		bool		isnull;
		bool		max_id_null;
		bool		step_null;
		text	   *tag = DatumGetTextPP(SPI_getbinval(tuple, desc, 1, &isnull));
		LeafAllocRow wanted = {.tag = VARDATA_ANY(tag), .len = VARSIZE_ANY_EXHDR(tag)};
		LeafAllocRow *row = bsearch(&wanted, rows, n, sizeof(*rows), compare_rows);

		if (row == NULL)
			continue;
		row->max_id = row->new_max_id = DatumGetInt64(SPI_getbinval(tuple, desc, 2, &max_id_null));
		row->step = DatumGetInt32(SPI_getbinval(tuple, desc, 3, &step_null));
		/* The constraints say so, too, as long as they are there. */
		if (max_id_null || step_null || row->step < 1)
			ereport(ERROR,
					(errcode(ERRCODE_CHECK_VIOLATION),
					 errmsg("max_id of a tag must not be null, and its step must be greater than zero")));
		row->state = LEAF_ROW_READY;
	}
}

/*
 * Write new_max_id of the rows that were locked, where it has moved.  The
 * trigger of the table sets update_time; one of the owner's must not lower
 * max_id again.
 */
void
leaf_alloc_update_rows(LeafAllocRow *rows, int n)
{
	execute_for_rows("UPDATE ONLY %s AS a SET max_id = r.max_id"
					 " FROM unnest($1, $2) AS r (biz_tag, max_id)"
					 " WHERE a.biz_tag = r.biz_tag RETURNING a.max_id >= r.max_id",
					 rows, n, row_moves, SPI_OK_UPDATE_RETURNING);
}
