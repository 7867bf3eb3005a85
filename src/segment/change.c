/*
 * change.c
 *		Transactions that change their allocation table themselves.
 *
 * The trigger of the table notes which tags a transaction has changed, and
 * when it commits, what the server had cached of them is dropped: between the
 * moment when others can see the change and the moment when the commit
 * returns.  The notes follow subtransactions: an undo log holds what each of
 * them changed in the notes, and its abort plays that back.
 *
 * A tag that the transaction itself has inserted gives ids before it commits.
 * The refill worker can't see it, so that the transaction reserves from its
 * row itself, a chunk at a time, and counts up in local memory.  If it rolls
 * back, the tag was never there.  If a subtransaction in it rolls back, the
 * row forgets its latest reservations but the note does not (see
 * "returned"): ids that were given out are not given out again.  Just before
 * the commit, the row is set to the first id that was not.
 *
 * A row that was there before and that the transaction has updated, or deleted
 * and inserted again, can't be used like that: rolling back would bring the old
 * row back, and the same ids with it.  The same holds of a row in a new table if
 * the tag had one in a table that the transaction has dropped.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/parallel.h"
#include "access/relation.h"
#include "access/xact.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "guc.h"
#include "segment/alloc.h"
#include "segment/change.h"
#include "segment/draw.h"
#include "segment/slot.h"
#include "shmem.h"

/* A tag that this transaction has touched. */
typedef struct Note
{
	LeafTagName name;
	LeafChangeKind kind;
	SubTransactionId logged_in; /* the subtransaction that last logged undo */
	bool		was_committed;	/* the transaction has deleted a committed row */

	/* Only for an inserted tag: what was reserved from its row. */
	int64		next;			/* [next, end) is in hand */
	int64		end;
	int64		returned;		/* one above the highest id given out; at first the least */
	int64		floor;			/* reserve from here on at least */
	int32		chunk;			/* how much was reserved the last time */
	uint32		rollbacks;		/* the counter below, when this was last true */
} Note;

typedef struct NoteEntry
{
	LeafTagName name;
	uint32		hash;
	char		status;
	Note	   *note;
} NoteEntry;

#define SH_PREFIX note_table
#define SH_ELEMENT_TYPE NoteEntry
#define SH_KEY_TYPE LeafTagName
#define SH_KEY name
#define SH_HASH_KEY(tb, key) leaf_tag_name_hash(key)
#define SH_EQUAL(tb, a, b) leaf_tag_name_equal(a, b)
#define SH_STORE_HASH
#define SH_GET_HASH(tb, a) (a)->hash
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

typedef struct Undo
{
	SubTransactionId subid;
	Note	   *note;
	LeafChangeKind kind;		/* what it was before */
	bool		was_committed;
	SubTransactionId logged_in;
} Undo;

bool		leaf_change_any = false;

/* All of it lives in TopTransactionContext and is forgotten at its end. */
static note_table_hash *notes = NULL;
static Undo *undo_log = NULL;
static int	undo_count = 0;
static int	undo_size = 0;
static uint32 rollbacks = 0;	/* of subtransactions, in this transaction */

/* Tables that this transaction has dropped; their tags are in the notes. */
static List *dropped = NIL;

static Note *
find_note(LeafTagName name)
{
	NoteEntry  *entry = notes ? note_table_lookup(notes, name) : NULL;

	return entry ? entry->note : NULL;
}

static void at_transaction_event(XactEvent event, void *arg);
static void at_subtransaction_event(SubXactEvent event, SubTransactionId subid,
									SubTransactionId parent, void *arg);

static Note *
make_note(LeafTagName name)
{
	static bool watching = false;
	NoteEntry  *entry;
	bool		found;

	/* Not before: a session that never changes a tag pays nothing for it. */
	if (!watching)
	{
		RegisterXactCallback(at_transaction_event, NULL);
		RegisterSubXactCallback(at_subtransaction_event, NULL);
		watching = true;
	}
	if (notes == NULL)
	{
		notes = note_table_create(TopTransactionContext, 16, NULL);
		leaf_change_any = true;
		leaf_draw_forget_last();
	}
	entry = note_table_lookup(notes, name);
	if (entry == NULL)
	{
		/* Whole before it is found: memory may run out in a subtransaction. */
		Note	   *note = MemoryContextAllocZero(TopTransactionContext, sizeof(Note));

		note->name = leaf_tag_name_copy(name, TopTransactionContext);
		note->returned = PG_INT64_MIN;
		entry = note_table_insert(notes, note->name, &found);
		entry->note = note;
	}
	return entry->note;
}

/* Change the kind of a note, so that an abort of the subtransaction undoes it. */
static void
set_kind(Note *note, LeafChangeKind kind)
{
	SubTransactionId subid = GetCurrentSubTransactionId();

	if (note->kind == kind)
		return;
	if (note->logged_in != subid)
	{
		if (undo_count == undo_size)
		{
			undo_size = Max(16, undo_size * 2);
			undo_log = undo_log ?
				repalloc_huge(undo_log, sizeof(Undo) * undo_size) :
				MemoryContextAlloc(TopTransactionContext, sizeof(Undo) * undo_size);
		}
		undo_log[undo_count++] = (Undo) {subid, note, note->kind, note->was_committed, note->logged_in};
		note->logged_in = subid;
	}
	note->kind = kind;
}

/*
 * The transaction has set the row itself: reserve from it again, from the
 * given id on at least.
 */
static void
restart_reservation(Note *note, int64 floor)
{
	note->rollbacks = rollbacks;
	note->next = note->end = 0;
	note->floor = floor;
}

/*
 * After a subtransaction was rolled back, what is in hand of any tag may have
 * been reserved in it.  The row, which is ours, tells: if it does not say so any
 * more, reserve again, above what was given out.
 */
static void
verify_reservation(Note *note, int64 max_id)
{
	if (note->rollbacks == rollbacks)
		return;
	note->rollbacks = rollbacks;
	if (note->end != max_id)
	{
		restart_reservation(note, note->returned);
		note->chunk /= 2;		/* it was not used up */
	}
}

/*
 * What this transaction did to a tag.
 */
LeafChangeKind
leaf_change_kind(Oid relid, const char *tag, int len)
{
	Note	   *note = find_note((LeafTagName) {relid, len, tag});

	return note ? note->kind : LEAF_CHANGE_NONE;
}

/*
 * Reserve from the row of an inserted tag so that "count" ids are in hand.
 * False if fewer are left.
 */
static bool
reserve_own(Note *note, int64 count)
{
	LeafAllocRow row = {.tag = note->name.tag, .len = note->name.len};
	int64		first;
	bool		enough;

	/* The reservation is an update, which parallel mode does not allow. */
	if (IsInParallelMode())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot draw ids in a parallel query for a tag that its own transaction has created"),
				 errhint("Commit the new row of \"%s\" first, or SET max_parallel_workers_per_gather = 0.",
						 LEAF_ALLOC_TABLE)));

	/* Our own transaction has written to the table, so its lock is ours. */
	if (!leaf_alloc_open(note->name.relid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("allocation table \"%s\" does not exist", LEAF_ALLOC_TABLE),
				 errhint("It was dropped in this transaction.")));
	leaf_alloc_lock_rows(&row, 1);
	if (row.state != LEAF_ROW_READY)
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("could not lock the row of tag \"%s\"", note->name.tag),
				 errhint("The row was created by this transaction; change it by plain INSERT, UPDATE and DELETE only.")));

	verify_reservation(note, row.max_id);
	if (note->end - note->next >= count)
	{
		leaf_alloc_close();
		return true;
	}

	if (leaf_guc_segment_duration == 0)
		note->chunk = row.step;
	else
		note->chunk = Min(Max((int64) row.step, (int64) note->chunk * 2),
						  Max(row.step, leaf_guc_max_step));
	first = Max(row.max_id, note->floor);
	row.new_max_id = leaf_alloc_advance(first, Max(count, note->chunk));
	enough = leaf_alloc_advance(first, count) - first == count;
	if (enough)
	{
		leaf_alloc_update_rows(&row, 1);
		note->next = first;
		note->end = row.new_max_id;
	}
	leaf_alloc_close();
	return enough;
}

/*
 * Take "count" contiguous ids of a tag that this transaction has inserted.
 * False if fewer than that are left.
 */
bool
leaf_change_draw(Oid relid, const char *tag, int len, int64 count, int64 *start)
{
	Note	   *note = find_note((LeafTagName) {relid, len, tag});

	Assert(note && note->kind == LEAF_CHANGE_INSERTED);
	if ((note->rollbacks != rollbacks || note->end - note->next < count) &&
		!reserve_own(note, count))
		return false;
	*start = note->next;
	note->next += count;
	note->returned = Max(note->returned, note->next);
	return true;
}

/*
 * Set the rows of inserted tags to the first id that was not given out: give
 * back the rest of what was reserved, and repeat what a rolled back
 * subtransaction took with it.
 */
static void
settle_own_rows(void)
{
	note_table_iterator it;
	NoteEntry  *entry;
	LeafAllocRow *rows;
	Note	  **owners;
	Oid			relid = InvalidOid;
	int			n = 0;

	rows = palloc(sizeof(LeafAllocRow) * notes->members);
	owners = palloc(sizeof(Note *) * notes->members);
	note_table_start_iterate(notes, &it);
	while ((entry = note_table_iterate(notes, &it)) != NULL)
	{
		Note	   *note = entry->note;

		if (note->kind != LEAF_CHANGE_INSERTED || note->returned == PG_INT64_MIN)
			continue;
		/* Dropped in this transaction?  There is at most one other, then. */
		if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(note->name.relid)))
			continue;
		relid = note->name.relid;
		owners[n] = note;
		rows[n] = (LeafAllocRow) {.tag = note->name.tag, .len = note->name.len, .caller_index = n};
		n++;
	}
	if (n == 0)
		return;

	if (!leaf_alloc_open(relid))
		return;
	leaf_alloc_lock_rows(rows, n);
	for (int i = 0; i < n; i++)
	{
		Note	   *note = owners[rows[i].caller_index];

		if (rows[i].state != LEAF_ROW_READY)
			continue;
		verify_reservation(note, rows[i].max_id);
		rows[i].new_max_id = note->next < note->end ?
			note->next :
			Max(rows[i].max_id, note->floor);
	}
	leaf_alloc_update_rows(rows, n);
	leaf_alloc_close();
}

/*
 * The changes are committed, and others see them: drop what was cached.
 */
static void
invalidate_changed(void)
{
	note_table_iterator it;
	NoteEntry  *entry;

	note_table_start_iterate(notes, &it);
	while ((entry = note_table_iterate(notes, &it)) != NULL)
	{
		Note	   *note = entry->note;
		LeafTagKey	key;

		if (note->kind != LEAF_CHANGE_NONE &&
			leaf_tag_key_set(&key, MyDatabaseId, note->name.relid,
							 note->name.tag, note->name.len))
			leaf_slot_invalidate(&key, note->kind == LEAF_CHANGE_DELETED);
	}
}

/* The memory goes with TopTransactionContext. */
static void
forget_all(void)
{
	notes = NULL;
	leaf_change_any = false;
	undo_log = NULL;
	undo_count = undo_size = 0;
	rollbacks = 0;
	dropped = NIL;
}

static void
at_transaction_event(XactEvent event, void *arg)
{
	if (notes == NULL)
		return;

	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			{
				/* SET TRANSACTION READ ONLY may have come after the draws. */
				bool		saved_read_only = XactReadOnly;

				XactReadOnly = false;
				settle_own_rows();
				XactReadOnly = saved_read_only;

				/* Ids were given out by what is written here, or will be. */
				ForceSyncCommit();
			}
			break;
		case XACT_EVENT_COMMIT:
			invalidate_changed();
			forget_all();
			break;
		case XACT_EVENT_ABORT:
			forget_all();
			break;
		case XACT_EVENT_PRE_PREPARE:
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot PREPARE a transaction that has changed \"%s\"",
							LEAF_ALLOC_TABLE),
					 errhint("Change tags in a transaction of its own and commit it.")));
			break;
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
			break;
	}
}

static void
at_subtransaction_event(SubXactEvent event, SubTransactionId subid,
						SubTransactionId parent, void *arg)
{
	if (notes == NULL)
		return;

	if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		/* What it logged is its parent's from now on. */
		for (int i = undo_count - 1; i >= 0 && undo_log[i].subid == subid; i--)
		{
			undo_log[i].subid = parent;
			undo_log[i].note->logged_in = parent;
		}
	}
	else if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		while (undo_count > 0 && undo_log[undo_count - 1].subid == subid)
		{
			Undo	   *undo = &undo_log[--undo_count];

			undo->note->kind = undo->kind;
			undo->note->was_committed = undo->was_committed;
			undo->note->logged_in = undo->logged_in;
		}
		rollbacks++;
	}
}

/*
 * The tag of a row as a name; its bytes are in the row or palloc'd.
 */
static LeafTagName
tag_of_row(Relation rel, HeapTuple row)
{
	bool		isnull;
	Datum		value = heap_getattr(row, LEAF_ATTR_BIZ_TAG, RelationGetDescr(rel), &isnull);
	text	   *tag = isnull ? NULL : DatumGetTextPP(value);

	/* The constraints say so, too, as long as they are there. */
	if (tag == NULL || VARSIZE_ANY_EXHDR(tag) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_CHECK_VIOLATION),
				 errmsg("a tag must not be null or empty")));
	return (LeafTagName) {RelationGetRelid(rel), VARSIZE_ANY_EXHDR(tag), VARDATA_ANY(tag)};
}

static bool
attribute_differs(Relation rel, int attribute, HeapTuple a, HeapTuple b)
{
	bool		isnull;

	return heap_getattr(a, attribute, RelationGetDescr(rel), &isnull) !=
		heap_getattr(b, attribute, RelationGetDescr(rel), &isnull);
}

/* Would the tag have a row again if the transaction rolled back? */
static bool
has_committed_row(const Note *note)
{
	LeafTagName name = note->name;
	ListCell   *cell;

	if (note->was_committed)
		return true;
	foreach(cell, dropped)
	{
		const Note *other;

		name.relid = lfirst_oid(cell);
		other = find_note(name);
		if (other != NULL && other->was_committed)
			return true;
	}
	return false;
}

static void
note_insert(Relation rel, HeapTuple row)
{
	Note	   *note = make_note(tag_of_row(rel, row));

	set_kind(note, has_committed_row(note) ? LEAF_CHANGE_UPDATED : LEAF_CHANGE_INSERTED);
	restart_reservation(note, PG_INT64_MIN);
}

static void
note_delete(Relation rel, HeapTuple row)
{
	Note	   *note = make_note(tag_of_row(rel, row));
	bool		was_committed = note->was_committed || note->kind != LEAF_CHANGE_INSERTED;

	set_kind(note, LEAF_CHANGE_DELETED);
	note->was_committed = was_committed;
}

static void
note_update(Relation rel, HeapTuple before, HeapTuple after)
{
	Note	   *note;
	bool		max_id_set;

	if (!leaf_tag_name_equal(tag_of_row(rel, before), tag_of_row(rel, after)))
	{
		note_delete(rel, before);
		note_insert(rel, after);
		return;
	}
	max_id_set = attribute_differs(rel, LEAF_ATTR_MAX_ID, before, after);
	if (!max_id_set && !attribute_differs(rel, LEAF_ATTR_STEP, before, after))
		return;
	note = make_note(tag_of_row(rel, after));
	if (note->kind != LEAF_CHANGE_INSERTED)
		set_kind(note, LEAF_CHANGE_UPDATED);
	else if (max_id_set)
		restart_reservation(note, PG_INT64_MIN);
}

/* Called before it happens: the table is locked, and its rows still there. */
static void
note_truncate(Relation rel)
{
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	HeapTuple	row;

	while ((row = systable_getnext(scan)) != NULL)
		note_delete(rel, row);
	systable_endscan(scan);
}

void
leaf_change_dropped(Oid relid)
{
	Relation	rel = relation_open(relid, NoLock);

	/* Not anybody's table of that name. */
	if (leaf_alloc_is_intact(rel))
		note_truncate(rel);

	/* Where nothing was noted, nothing is to be forgotten. */
	if (notes != NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);

		dropped = lappend_oid(dropped, relid);
		MemoryContextSwitchTo(old);
	}
	relation_close(rel, NoLock);
}

PG_FUNCTION_INFO_V1(leaf_alloc_changed);

/*
 * leaf_alloc_changed() returns trigger
 *
 * BEFORE INSERT OR UPDATE, each row: sets update_time.
 * AFTER INSERT OR UPDATE OR DELETE, each row, and BEFORE TRUNCATE: notes what
 * the transaction changed.  Always enabled, so that replicated and restored
 * changes count too.  What this process reserves itself is no change.
 */
Datum
leaf_alloc_changed(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;
	Relation	rel;
	HeapTuple	result;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" was not called by the trigger manager",
						"leaf_alloc_changed")));
	leaf_require_preload();

	rel = trigger->tg_relation;
	if (rel->rd_rel->relkind != RELKIND_RELATION ||
		TRIGGER_FIRED_FOR_ROW(trigger->tg_event) == TRIGGER_FIRED_BY_TRUNCATE(trigger->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be fired for each row of a table, or by its TRUNCATE",
						"leaf_alloc_changed")));
	leaf_alloc_check_table(rel);
	result = TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ?
		trigger->tg_newtuple :
		trigger->tg_trigtuple;

	if (TRIGGER_FIRED_BY_TRUNCATE(trigger->tg_event))
	{
		note_truncate(rel);
		return PointerGetDatum(NULL);
	}
	if (TRIGGER_FIRED_BEFORE(trigger->tg_event))
	{
		int			attribute = LEAF_ATTR_UPDATE_TIME;
		Datum		now = TimestampTzGetDatum(GetCurrentTransactionStartTimestamp());
		bool		isnull = false;

		return PointerGetDatum(heap_modify_tuple_by_cols(result, RelationGetDescr(rel), 1,
														 &attribute, &now, &isnull));
	}

	if (leaf_alloc_writing())
		return PointerGetDatum(result);
	if (TRIGGER_FIRED_BY_INSERT(trigger->tg_event))
		note_insert(rel, trigger->tg_trigtuple);
	else if (TRIGGER_FIRED_BY_DELETE(trigger->tg_event))
		note_delete(rel, trigger->tg_trigtuple);
	else
		note_update(rel, trigger->tg_trigtuple, trigger->tg_newtuple);
	return PointerGetDatum(result);
}
