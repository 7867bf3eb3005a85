/*
 * node_client.js
 *		pg (node-postgres), as an application uses it.
 *
 * A pool of connections (PGHOST, PGPORT, PGDATABASE as usual) inserts at once:
 * parameters, a named prepared statement, several rows a statement, and a
 * transaction.  Prints every id that RETURNING gave, one a line; pg hands a
 * bigint out as text, so no id is rounded.
 */
'use strict';

const { Pool } = require('pg');

const TABLE = 'node_event';

async function migrate(pool)
{
	const client = await pool.connect();

	try
	{
		await client.query('BEGIN');
		await client.query('INSERT INTO leaf_alloc (biz_tag) VALUES ($1)', [TABLE]);
		await client.query(
			`CREATE TABLE ${TABLE} (
				id bigint PRIMARY KEY DEFAULT leaf_segment_nextval('${TABLE}'),
				payload jsonb NOT NULL)`);
		await client.query('COMMIT');
	}
	finally
	{
		client.release();
	}
}

async function main()
{
	const pool = new Pool({ max: 4 });
	const insert = `INSERT INTO ${TABLE} (payload) VALUES ($1) RETURNING id`;
	const ids = [];
	const keep = (result) => ids.push(...result.rows.map((row) => row.id));

	await migrate(pool);

	/* from all connections at once: parameters, then a prepared statement */
	await Promise.all(Array.from({ length: 200 }, async (_, n) =>
		keep(await pool.query(insert, [{ n }]))));
	await Promise.all(Array.from({ length: 200 }, async (_, n) =>
		keep(await pool.query({ name: 'add event', text: insert, values: [{ n }] }))));

	/* several rows a statement */
	keep(await pool.query(
		`INSERT INTO ${TABLE} (payload) VALUES ($1), ($2), ($3) RETURNING id`,
		[{ row: 1 }, { row: 2 }, { row: 3 }]));

	/* a transaction that ends well */
	const client = await pool.connect();

	await client.query('BEGIN');
	keep(await client.query(insert, [{ in: 'transaction' }]));
	keep(await client.query(insert, [{ in: 'transaction' }]));
	await client.query('COMMIT');
	client.release();

	await pool.end();
	process.stdout.write(ids.join('\n') + '\n');
}

main().catch((error) =>
{
	process.stderr.write(`${error.stack}\n`);
	process.exit(1);
});
