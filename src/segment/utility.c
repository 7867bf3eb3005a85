/*
 * utility.c
 *		Database commands that need a database without connections.
 *
 * DROP DATABASE, ALTER DATABASE RENAME and SET TABLESPACE, and CREATE DATABASE
 * from a template wait five seconds for other connections to the database and
 * then fail; they know that autovacuum has to go, but not our worker.  So
 * the worker is asked to leave before the command runs, whichever database it
 * runs in.
 */
#include "postgres.h"

#include "catalog/pg_database.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "tcop/utility.h"

#include "segment/change.h"
#include "segment/launch.h"
#include "segment/segment.h"
#include "segment/slot.h"

static ProcessUtility_hook_type prev_process_utility = NULL;

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

/* The database that a command wants to have for itself, or NULL. */
static const char *
database_wanted_alone(Node *statement)
{
	if (IsA(statement, DropdbStmt))
		return ((DropdbStmt *) statement)->dbname;

	if (IsA(statement, RenameStmt))
	{
		RenameStmt *rename = (RenameStmt *) statement;

		return rename->renameType == OBJECT_DATABASE ? rename->subname : NULL;
	}

	if (IsA(statement, AlterDatabaseStmt))
	{
		AlterDatabaseStmt *alter = (AlterDatabaseStmt *) statement;

		return find_option(alter->options, "tablespace") ? alter->dbname : NULL;
	}

	if (IsA(statement, CreatedbStmt))
	{
		DefElem    *template = find_option(((CreatedbStmt *) statement)->options, "template");

		return template && template->arg ? defGetString(template) : "template1";
	}

	return NULL;
}

static void
process_utility(PlannedStmt *pstmt, const char *query_string, bool read_only_tree,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *query_env, DestReceiver *dest, QueryCompletion *qc)
{
	Node	   *statement = pstmt->utilityStmt;
	const char *name = database_wanted_alone(statement);
	Oid			dboid = name ? get_database_oid(name, true) : InvalidOid;

	if (OidIsValid(dboid) && dboid != MyDatabaseId)
		leaf_launch_dismiss(dboid);

	if (prev_process_utility)
		prev_process_utility(pstmt, query_string, read_only_tree, context, params,
							 query_env, dest, qc);
	else
		standard_ProcessUtility(pstmt, query_string, read_only_tree, context, params,
								query_env, dest, qc);

	if (OidIsValid(dboid) && IsA(statement, DropdbStmt))
		leaf_slot_free_database(dboid);
}

void
leaf_segment_install(void)
{
	prev_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
	leaf_change_install();
}
