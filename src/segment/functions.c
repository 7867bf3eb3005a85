/*
 * functions.c
 *		The SQL functions of the segment generator, and what its views show.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rangetypes.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "utils/typcache.h"

#include "compat.h"
#include "guc.h"
#include "monotonic.h"
#include "segment/draw.h"
#include "segment/slot.h"
#include "segment/step.h"
#include "shmem.h"

PG_FUNCTION_INFO_V1(leaf_segment_nextval);
PG_FUNCTION_INFO_V1(leaf_segment_reserve);
PG_FUNCTION_INFO_V1(leaf_segment_status);
PG_FUNCTION_INFO_V1(leaf_segment_alarms);

/*
 * What every call for ids checks first, as nextval does: 25006 on a standby
 * and in a read-only transaction.
 */
static void
check_may_draw(const char *function)
{
	leaf_require_preload();
	PreventCommandDuringRecovery(function);
	PreventCommandIfReadOnly(function);
}

static void
refuse_null(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("%s must not be null", what)));
}

/*
 * leaf_segment_nextval(tag text) returns bigint
 *
 * The next id of a tag; larger than any that a call which has returned got on
 * this server.  Never rolled back.
 *
 * Errors: 22004 null; 42704 unknown tag; 25006 read-only or standby; 2200H no
 * ids left; 55P03 no segment within leaf.wait_timeout; 53000, 53400 no free
 * worker or slot; 55000 not preloaded.
 */
Datum
leaf_segment_nextval(PG_FUNCTION_ARGS)
{
	text	   *tag;
	int64		id;

	/* XactReadOnly is set during recovery, too. */
	if (unlikely(XactReadOnly))
		check_may_draw("leaf_segment_nextval()");
	if (unlikely(PG_ARGISNULL(0)))
		refuse_null("tag");
	tag = PG_GETARG_TEXT_PP(0);
	if (likely(leaf_draw_fast(VARDATA_ANY(tag), VARSIZE_ANY_EXHDR(tag), &id)))
		PG_RETURN_INT64(id);

	check_may_draw("leaf_segment_nextval()");
	PG_RETURN_INT64(leaf_draw_one(fcinfo->flinfo->fn_oid,
								  VARDATA_ANY(tag), VARSIZE_ANY_EXHDR(tag)));
}

/*
 * leaf_segment_reserve(tag text, count bigint) returns int8range
 *
 * "count" contiguous ids [lo,hi), for a client that hands them out itself.
 * Errors: as leaf_segment_nextval; 22023 count < 1; 2200H fewer are left.
 */
Datum
leaf_segment_reserve(PG_FUNCTION_ARGS)
{
	text	   *tag;
	int64		count;
	int64		start;
	RangeBound	lower = {0};
	RangeBound	upper = {0};

	check_may_draw("leaf_segment_reserve()");
	if (PG_ARGISNULL(0))
		refuse_null("tag");
	if (PG_ARGISNULL(1))
		refuse_null("count");
	tag = PG_GETARG_TEXT_PP(0);
	count = PG_GETARG_INT64(1);
	if (count < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("count must be at least 1"),
				 errhint("Ask for the number of ids that you need.")));

	start = leaf_draw_block(fcinfo->flinfo->fn_oid,
							VARDATA_ANY(tag), VARSIZE_ANY_EXHDR(tag), count);

	lower.val = Int64GetDatum(start);
	lower.inclusive = true;
	lower.lower = true;
	upper.val = Int64GetDatum(start + count);
	PG_RETURN_RANGE_P(leaf_make_range(lookup_type_cache(INT8RANGEOID, TYPECACHE_RANGE_INFO),
									  &lower, &upper));
}

static void
put_status(ReturnSetInfo *rsinfo, const LeafTagKey *key, const LeafSlotStatus *status)
{
	const LeafRefillState *refill = &status->refill;
	Datum		values[16];
	bool		nulls[16] = {0};
	int			i = 0;

#define PUT(datum) (values[i++] = (datum))
#define PUT_IF(condition, datum) \
	do \
	{ \
		nulls[i] = !(condition); \
		values[i++] = (condition) ? (datum) : (Datum) 0; \
	} while (0)

	PUT(PointerGetDatum(cstring_to_text_with_len(key->tag, key->len)));
	if (status->offset < status->now.length)
		PUT(Int64GetDatum(status->now.start + status->offset));
	else
		PUT_IF(status->next.length > 0, Int64GetDatum(status->next.start));
	PUT_IF(status->now.length > 0, Int64GetDatum(status->now.start));
	PUT_IF(status->now.length > 0, Int64GetDatum(status->now.start + status->now.length));
	PUT_IF(status->next.length > 0, Int64GetDatum(status->next.start));
	PUT_IF(status->next.length > 0, Int64GetDatum(status->next.start + status->next.length));
	PUT_IF(refill->base_step > 0, Int32GetDatum(refill->base_step));
	PUT_IF(refill->base_step > 0,
		   Int32GetDatum(leaf_step_next(refill->base_step, leaf_guc_max_step,
										leaf_guc_segment_duration,
										leaf_refill_used(refill, status->issued),
										leaf_monotonic_us() - refill->monotonic_us)));
	PUT(Int64GetDatum(status->issued));
	PUT(Int64GetDatum(refill->refills));
	PUT(Int64GetDatum(status->waits));
	PUT(Float8GetDatum(status->max_wait_us / 1000.0));
	PUT_IF(refill->last_at != 0, TimestampTzGetDatum(refill->last_at));
	PUT_IF(refill->last_at != 0, Float8GetDatum(refill->last_us / 1000.0));
	PUT_IF(refill->last_error_at != 0, CStringGetTextDatum(refill->last_error));
	PUT_IF(refill->last_error_at != 0, TimestampTzGetDatum(refill->last_error_at));
#undef PUT
#undef PUT_IF

	Assert(i == lengthof(values));
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * leaf_segment_status(): a row for each tag of this database that the server
 * has cached.  Times in milliseconds; "end" is the first id that is not in.
 */
Datum
leaf_segment_status(PG_FUNCTION_ARGS)
{
	LeafTagKey	key;
	LeafSlotStatus status;
	Oid			relid;

	leaf_require_preload();
	InitMaterializedSRF(fcinfo, 0);
	relid = leaf_draw_table(fcinfo->flinfo->fn_oid);
	for (int i = 0; i < leaf_slot_count(); i++)
		if (leaf_slot_read_status(leaf_slot_by_index(i), &key, &status) &&
			key.dboid == MyDatabaseId && key.relid == relid)
			put_status((ReturnSetInfo *) fcinfo->resultinfo, &key, &status);
	return (Datum) 0;
}

/*
 * Text of another database may be in another encoding: show what is ASCII.
 */
static text *
foreign_text(Oid dboid, const char *bytes)
{
	char	   *copy = pstrdup(bytes);

	if (dboid != MyDatabaseId)
		for (char *c = copy; *c != '\0'; c++)
			if (IS_HIGHBIT_SET(*c))
				*c = '?';
	return cstring_to_text(copy);
}

static void
put_alarm(ReturnSetInfo *rsinfo, const LeafTagKey *key, const LeafSlotStatus *status)
{
	const char *dbname = get_database_name(key->dboid);
	char	   *source = psprintf("segment \"%.*s\" of database \"%s\"",
								  key->len, key->tag, dbname ? dbname : "");
	Datum		values[4];
	bool		nulls[4] = {0};

	values[0] = PointerGetDatum(foreign_text(key->dboid, source));
	values[1] = TimestampTzGetDatum(status->refill.failing_since);
	values[2] = PointerGetDatum(foreign_text(key->dboid, status->refill.last_error));
	values[3] = CStringGetTextDatum("The next segment can't be reserved; calls fail once what is cached is used up. Where the message names a lock, end the transaction that holds it (pg_stat_activity, pg_prepared_xacts).");
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * leaf_segment_alarms(): the tags, of all databases, whose refill fails.
 */
Datum
leaf_segment_alarms(PG_FUNCTION_ARGS)
{
	LeafTagKey	key;
	LeafSlotStatus status;

	leaf_require_preload();
	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < leaf_slot_count(); i++)
		if (leaf_slot_read_status(leaf_slot_by_index(i), &key, &status) &&
			status.refill.failures > 1)
			put_alarm((ReturnSetInfo *) fcinfo->resultinfo, &key, &status);
	return (Datum) 0;
}
