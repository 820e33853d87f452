// Keys of tables and indexes.

/**
 * The keys of a table or of an index of it.
 * @returns {{hash: {name: string, type: string}[], range: {name: string, type: string}[]}}
 */
export function keysOf(table, indexName = "") {
  const types = Object.fromEntries(table.AttributeDefinitions.map((d) => [d.AttributeName, d.AttributeType]));
  const schema = indexName ? indexOf(table, indexName).KeySchema : table.KeySchema;
  const of = (kind) => schema.filter((k) => k.KeyType === kind).map((k) => ({ name: k.AttributeName, type: types[k.AttributeName] }));
  return { hash: of("HASH"), range: of("RANGE") };
}

/** All indexes of a table, with whether they are global. */
export function indexesOf(table) {
  return [
    ...(table.GlobalSecondaryIndexes ?? []).map((i) => ({ ...i, global: true })),
    ...(table.LocalSecondaryIndexes ?? []).map((i) => ({ ...i, global: false })),
  ];
}

export const indexOf = (table, name) => indexesOf(table).find((i) => i.IndexName === name);

/** Names of the attributes of the key of the table itself. */
export function keyNames(table) {
  const { hash, range } = keysOf(table);
  return [...hash, ...range].map((k) => k.name);
}

/** The key of an item. */
export function keyOf(table, item) {
  return Object.fromEntries(keyNames(table).map((name) => [name, item[name]]));
}
