/*
 * functions.c
 *		The SQL functions of snowflake.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "guc.h"
#include "shmem.h"
#include "snowflake/clock.h"
#include "snowflake/generator.h"
#include "snowflake/id.h"
#include "snowflake/node.h"

PG_FUNCTION_INFO_V1(leaf_snowflake_nextval);
PG_FUNCTION_INFO_V1(leaf_snowflake_parse);
PG_FUNCTION_INFO_V1(leaf_snowflake_floor);
PG_FUNCTION_INFO_V1(leaf_snowflake_status);
PG_FUNCTION_INFO_V1(leaf_snowflake_peers);

/*
 * leaf_snowflake_nextval() returns bigint: the next id.  Waits and errors are
 * leaf_generator_next's.
 */
Datum
leaf_snowflake_nextval(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(leaf_generator_next());
}

/*
 * leaf_snowflake_parse(id bigint): when, by which worker and as which of its
 * millisecond an id was made, under this server's leaf.epoch.  22004 for
 * NULL, 22023 for a negative one.
 */
Datum
leaf_snowflake_parse(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Datum		values[3];
	bool		nulls[3] = {false, false, false};
	int64		id;

	leaf_require_preload();
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("id must not be null")));
	id = PG_GETARG_INT64(0);
	if (id < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("id must not be negative"),
				 errhint("A snowflake id is a positive bigint.")));
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	values[0] = TimestampTzGetDatum(leaf_ms_to_timestamptz(leaf_id_time(id) + leaf_guc_epoch_ms));
	values[1] = Int32GetDatum(leaf_id_worker(id));
	values[2] = Int32GetDatum(leaf_id_sequence(id));
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}

/*
 * leaf_snowflake_floor(ts timestamptz) returns bigint: the smallest id that
 * any worker could make in the millisecond of ts.  22004 for NULL, 22008 for
 * a time that no id can have.
 */
Datum
leaf_snowflake_floor(PG_FUNCTION_ARGS)
{
	TimestampTz ts;
	int64		time;

	leaf_require_preload();
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("time must not be null")));
	ts = PG_GETARG_TIMESTAMPTZ(0);
	time = TIMESTAMP_NOT_FINITE(ts) ? -1 : leaf_timestamptz_to_ms(ts) - leaf_guc_epoch_ms;
	if (time < 0 || time > LEAF_ID_MAX_TIME)
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_FIELD_OVERFLOW),
				 errmsg("time is out of range for snowflake ids"),
				 errdetail("Ids have times from %s to %s.",
						   pstrdup(timestamptz_to_str(leaf_ms_to_timestamptz(leaf_guc_epoch_ms))),
						   pstrdup(timestamptz_to_str(leaf_ms_to_timestamptz(leaf_guc_epoch_ms + LEAF_ID_MAX_TIME)))),
				 errhint("The range begins at leaf.epoch.")));
	PG_RETURN_INT64((int64) leaf_id_make(time, 0, 0));
}

/* A column that is null where the text is empty, the time 0, the id -1. */
static void
put_text(Datum *values, bool *nulls, int column, const char *text)
{
	nulls[column] = text == NULL || text[0] == '\0';
	if (!nulls[column])
		values[column] = CStringGetTextDatum(text);
}

static void
put_time(Datum *values, bool *nulls, int column, int64 ms)
{
	nulls[column] = ms == 0;
	values[column] = TimestampTzGetDatum(leaf_ms_to_timestamptz(ms));
}

static void
put_worker_id(Datum *values, bool *nulls, int column, int worker_id)
{
	nulls[column] = worker_id < 0;
	values[column] = Int32GetDatum(worker_id);
}

static void
put_offset(Datum *values, bool *nulls, int column, bool known, double offset_ms)
{
	nulls[column] = !known;
	values[column] = Float8GetDatum(offset_ms);
}

/*
 * The row of the view leaf_snowflake_status.
 *
 * While the clock is behind the last id every call is refused, which the
 * calls find by themselves and the node worker has no part in; so the view
 * finds it in the same way.
 */
Datum
leaf_snowflake_status(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Datum		values[15];
	bool		nulls[15];
	LeafNodeStatus status;
	LeafGeneratorStatus generator;
	int64		behind_ms;
	int			i = 0;

	leaf_require_preload();
	InitMaterializedSRF(fcinfo, 0);
	leaf_node_get_status(&status);
	leaf_generator_get_status(&generator);

	behind_ms = generator.last_issued_ms - leaf_clock_wall_ms();
	if (status.state == LEAF_NODE_RUNNING && behind_ms > leaf_guc_clock_backward_limit)
	{
		status.state = LEAF_NODE_REFUSED;
		status.refusal = LEAF_REFUSAL_CLOCK_BEHIND;
		snprintf(status.detail, sizeof(status.detail),
				 "The clock is %lld ms behind the last id.", (long long) behind_ms);
	}
	else if (status.state == LEAF_NODE_RUNNING)
		strlcpy(status.detail, status.bound_error, sizeof(status.detail));

	memset(nulls, 0, sizeof(nulls));
	put_text(values, nulls, i++, leaf_node_state_name(status.state));
	put_text(values, nulls, i++, status.state == LEAF_NODE_REFUSED ? leaf_refusal_name(status.refusal) : NULL);
	put_text(values, nulls, i++, status.detail);
	put_worker_id(values, nulls, i++, status.worker_id);
	put_text(values, nulls, i++, GetConfigOption("leaf.worker_id_source", false, false));
	put_text(values, nulls, i++, status.node_address);
	put_text(values, nulls, i++, leaf_guc_cluster_name);
	values[i++] = Int64GetDatum(leaf_guc_epoch_ms);
	put_time(values, nulls, i++, generator.ids_issued > 0 ? generator.last_issued_ms : 0);
	put_time(values, nulls, i++, generator.bound_ms);
	put_offset(values, nulls, i++, status.offset_known, status.clock_offset_ms);
	values[i++] = Int64GetDatum((int64) generator.clock_backward_events);
	put_text(values, nulls, i++, status.source_state);
	put_time(values, nulls, i++, status.last_report_ms);
	values[i++] = Int64GetDatum((int64) generator.ids_issued);
	Assert(i == lengthof(values));

	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	return (Datum) 0;
}

/* The rows of the view leaf_snowflake_peers. */
Datum
leaf_snowflake_peers(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	LeafPeer   *peers;
	int			npeers;

	leaf_require_preload();
	InitMaterializedSRF(fcinfo, 0);
	npeers = leaf_node_get_peers(&peers);

	for (int p = 0; p < npeers; p++)
	{
		const LeafPeer *peer = &peers[p];
		Datum		values[6];
		bool		nulls[6];
		int			i = 0;

		memset(nulls, 0, sizeof(nulls));
		put_text(values, nulls, i++, peer->node_address);
		put_worker_id(values, nulls, i++, peer->worker_id);
		put_time(values, nulls, i++, peer->last_report_ms);
		values[i++] = BoolGetDatum(peer->alive);
		put_offset(values, nulls, i++, peer->offset_known, peer->offset_ms);
		values[i++] = BoolGetDatum(peer->is_self);
		Assert(i == lengthof(values));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
