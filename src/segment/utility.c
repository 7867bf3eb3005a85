/*
 * utility.c
 *		Commands that end a database or an allocation table.
 *
 * DROP DATABASE, ALTER DATABASE RENAME and SET TABLESPACE, and CREATE DATABASE
 * from a template wait five seconds for other connections to the database and
 * then fail; they know that autovacuum has to go, but not our worker.  So
 * the worker is asked to leave before the command runs, whichever database it
 * runs in.
 *
 * When an allocation table is dropped - with the extension, its schema or its
 * owner - or altered, renamed or moved away, what is cached of it goes at once.
 * Other sessions hear of that when they next take a lock, and a transaction may
 * not do that for long: until then it would draw old ids, while those of a new
 * table are drawn already.  No trigger fires for what ALTER TABLE does to rows.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "compat.h"
#include "segment/alloc.h"
#include "segment/change.h"
#include "segment/launch.h"
#include "segment/segment.h"
#include "segment/slot.h"

static ProcessUtility_hook_type prev_process_utility = NULL;
static object_access_hook_type prev_object_access = NULL;

static DefElem *
find_option(List *options, const char *name)
{
	ListCell   *cell;

	foreach(cell, options)
	{
		DefElem    *option = lfirst_node(DefElem, cell);

		if (strcmp(option->defname, name) == 0)
			return option;
	}
	return NULL;
}

/* May the current user copy a database that is not his? */
static bool
may_copy_database(Oid dboid)
{
	HeapTuple	role = SearchSysCache1(AUTHOID, ObjectIdGetDatum(GetUserId()));
	HeapTuple	database = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(dboid));
	bool		result;

	result = HeapTupleIsValid(role) && ((Form_pg_authid) GETSTRUCT(role))->rolcreatedb &&
		HeapTupleIsValid(database) && ((Form_pg_database) GETSTRUCT(database))->datistemplate;
	if (HeapTupleIsValid(role))
		ReleaseSysCache(role);
	if (HeapTupleIsValid(database))
		ReleaseSysCache(database);
	return result;
}

/*
 * The database that a command wants to have for itself; invalid if there is
 * none, or if the command will be refused anyway: nobody may send away the
 * worker of a database that is not his business.
 */
static Oid
database_wanted_alone(Node *statement)
{
	const char *name = NULL;
	bool		copies = false;
	Oid			dboid;

	if (IsA(statement, DropdbStmt))
		name = ((DropdbStmt *) statement)->dbname;
	else if (IsA(statement, RenameStmt))
	{
		RenameStmt *rename = (RenameStmt *) statement;

		if (rename->renameType == OBJECT_DATABASE)
			name = rename->subname;
	}
	else if (IsA(statement, AlterDatabaseStmt))
	{
		AlterDatabaseStmt *alter = (AlterDatabaseStmt *) statement;

		if (find_option(alter->options, "tablespace"))
			name = alter->dbname;
	}
	else if (IsA(statement, CreatedbStmt))
	{
		DefElem    *template = find_option(((CreatedbStmt *) statement)->options, "template");

		name = template && template->arg ? defGetString(template) : "template1";
		copies = true;
	}

	dboid = name ? get_database_oid(name, true) : InvalidOid;
	if (!OidIsValid(dboid) || leaf_owns_database(dboid))
		return dboid;
	return copies && may_copy_database(dboid) ? dboid : InvalidOid;
}

/*
 * Called before it happens, or before it can be seen, with the table locked:
 * nobody reserves from it until the transaction has ended, and if it rolls
 * back, there is a gap.
 */
static void
object_access(ObjectAccessType access, Oid classid, Oid objectid, int subid, void *arg)
{
	bool		drop = access == OAT_DROP && subid == 0;
	char	   *name;

	if (prev_object_access)
		prev_object_access(access, classid, objectid, subid, arg);

	if (classid != RelationRelationId || !(drop || access == OAT_POST_ALTER))
		return;
	name = get_rel_name(objectid);
	if (name == NULL || strcmp(name, LEAF_ALLOC_TABLE) != 0)
		return;
	leaf_slot_free_all(MyDatabaseId, objectid);
	if (drop)
		leaf_change_dropped(objectid);
}

static void
process_utility(PlannedStmt *pstmt, const char *query_string, bool read_only_tree,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *query_env, DestReceiver *dest, QueryCompletion *qc)
{
	ProcessUtility_hook_type next =
		prev_process_utility ? prev_process_utility : standard_ProcessUtility;
	Node	   *statement = pstmt->utilityStmt;
	Oid			dboid = database_wanted_alone(statement);

	if (OidIsValid(dboid))
		leaf_launch_dismiss(dboid);

	/* Only while it can be such a command: every call of a function asks that hook. */
	if ((IsA(statement, DropStmt) || IsA(statement, DropOwnedStmt) ||
		 IsA(statement, RenameStmt) || IsA(statement, AlterObjectSchemaStmt) ||
		 IsA(statement, AlterTableStmt)) &&
		object_access_hook != object_access)
	{
		prev_object_access = object_access_hook;
		object_access_hook = object_access;
		PG_TRY();
		{
			next(pstmt, query_string, read_only_tree, context, params, query_env, dest, qc);
		}
		PG_FINALLY();
		{
			object_access_hook = prev_object_access;
		}
		PG_END_TRY();
	}
	else
		next(pstmt, query_string, read_only_tree, context, params, query_env, dest, qc);

	if (OidIsValid(dboid) && IsA(statement, DropdbStmt))
		leaf_slot_free_all(dboid, InvalidOid);
}

void
leaf_segment_install(void)
{
	prev_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}
