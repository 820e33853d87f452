package code

// tsSnippets are what generated TypeScript is built on, by name.
var tsSnippets = map[string]snippet{
	"Page": {text: `
/** A page of a query. next is where the next page starts; the last page has none. */
export interface Page<T> {
  items: T[];
  next?: Key;
}
`},
	"Position": {text: `
/**
 * Where the next page of a shard starts: at its beginning, or after a key. A shard without more
 * pages is finished.
 */
export interface Position {
  after?: Key;
  finished?: boolean;
}

/** The request of one shard. */
export interface ShardQuery {
  shard: number;
  request: QueryCommandInput;
}
`},
	"ShardPage": {needs: []string{"positionAfter"}, text: `
/** A page of one shard. next is where the next page starts. */
export interface ShardPage<T> {
  items: T[];
  next: Position;
}
`},
	"positionAfter": {needs: []string{"Position"}, text: `
/** Returns the position after a page. */
function positionAfter(key: Key | undefined): Position {
  return key === undefined ? { finished: true } : { after: key };
}
`},
	"keyPart": {text: `
/**
 * Fails if a value cannot be a part of a key: it must not be empty, and it must end before the
 * text that follows it in the key, and before the texts that follow such a value in other keys.
 */
function keyPart(name: string, key: string, value: string, next: string, ...others: string[]): void {
  if (value === "") {
    throw new Error(` + "`${name} must not be empty: it is a part of ${key}`" + `);
  }
  for (const end of [...others, next]) {
    const i = (value + next).indexOf(end);
    if (end !== "" && i >= 0 && i < value.length) {
      const problem = value.includes(end) ? "contain" : "end with a part of";
      throw new Error(` + "`${name} must not ${problem} \"${end}\", which ends it in ${key}`" + `);
    }
  }
}
`},
	"keyBound": {text: `
/** Fails if an end of a range contains a text that ends such values in a key. */
function keyBound(name: string, key: string, value: string, ...ends: string[]): void {
  for (const end of ends) {
    if (value.includes(end)) {
      throw new Error(` + "`${name} must not contain \"${end}\", which ends it in ${key}`" + `);
    }
  }
}
`},
	"addedSet": {text: `
/** Fails if a set that is added to an attribute is empty. */
function addedSet(name: string, n: number): void {
  if (n === 0) {
    throw new Error(` + "`the set that is added to ${name} must not be empty`" + `);
  }
}
`},
	"setClause": {text: `
/** Sets an attribute to a set with n members, or removes it if the set is empty. */
function setClause(name: string, value: string, n: number): [string, string] {
  return n === 0 ? ["REMOVE", name] : ["SET", ` + "`${name} = ${value}`" + `];
}
`},
	"updateExpression": {text: `
/** Joins the changes of an update. */
function updateExpression(...clauses: [string, string][]): string {
  const sections: string[] = [];
  for (const section of ["SET", "REMOVE", "ADD"]) {
    const texts = clauses.filter(([kind]) => kind === section).map(([, text]) => text);
    if (texts.length > 0) {
      sections.push(section + " " + texts.join(", "));
    }
  }
  return sections.join(" ");
}
`},
	"withoutEmptySets": {text: `
/** Removes those of the named values that are empty sets. */
function withoutEmptySets(values: Item, ...names: string[]): Item | undefined {
  const kept = Object.entries(values).filter(
    ([name, v]) => !names.includes(name) || (v.SS ?? v.NS ?? v.BS)?.length !== 0,
  );
  return kept.length === 0 ? undefined : Object.fromEntries(kept);
}
`},
	"strangeItem": {text: `
/** The error of an item that is of none of the expected entities. */
function strangeItem(it: Item, ...key: string[]): Error {
  const names = key.map((name) => ` + "` ${name} \"${it[name]?.S ?? \"\"}\"`" + `);
  return new Error("an item is of no entity that the model expects here:" + names.join(""));
}
`},
	"padded": {text: `
/** Returns a shard number as keys contain it. */
function padded(n: number, width: number): string {
  return String(n).padStart(width, "0");
}
`},
	"shardOf": {text: `
/** Returns the shard of a text. */
function shardOf(text: string, shards: number): number {
  let hash = 0xcbf29ce484222325n;
  for (const byte of new TextEncoder().encode(text)) {
    hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
  }
  return Number(hash % BigInt(shards));
}
`},
	"numberText": {text: `
/** Returns a number in decimal digits, without exponent. */
function numberText(n: number): string {
  if (!Number.isFinite(n)) {
    throw new RangeError(` + "`${n} cannot be stored`" + `);
  }
  if (n === 0) {
    return "0";
  }
  const [mantissa = "", exponent = "0"] = Math.abs(n).toExponential().split("e");
  const digits = mantissa.replace(".", "");
  const point = Number(exponent) + 1;
  const sign = n < 0 ? "-" : "";
  if (point <= 0) {
    return sign + "0." + "0".repeat(-point) + digits;
  }
  if (point >= digits.length) {
    return sign + digits + "0".repeat(point - digits.length);
  }
  return sign + digits.slice(0, point) + "." + digits.slice(point);
}
`},
	"numberOf": {text: `
/** Returns the number of decimal digits. It fails if it would not be exact. */
function numberOf(text: string): number {
  if (text.replace(/[-.]/g, "").replace(/^0+/, "").replace(/0+$/, "").length > 15) {
    throw new RangeError(` + "`${text} has more digits than a number keeps`" + `);
  }
  return Number(text);
}
`},
	"cut": {text: `
/** Returns the texts between the pieces of a template, undefined if the text is not of its form. */
function cut(text: string, ...pieces: string[]): string[] | undefined {
  const [first = "", ...others] = pieces;
  if (!text.startsWith(first) || (others.length === 0 && text !== first)) {
    return undefined;
  }
  const between: string[] = [];
  let rest = text.slice(first.length);
  for (const [i, piece] of others.entries()) {
    const last = i === others.length - 1;
    const end = last ? rest.length - piece.length : rest.indexOf(piece);
    if (end <= 0 || (last && !rest.endsWith(piece))) {
      return undefined;
    }
    between.push(rest.slice(0, end));
    rest = rest.slice(end + piece.length);
  }
  return between;
}
`},
	"isCut": {needs: []string{"cut"}, text: `
/** Tells whether a key attribute is of the form of a template. */
function isCut(v: AttributeValue | undefined, ...pieces: string[]): boolean {
  return v?.S !== undefined && cut(v.S, ...pieces) !== undefined;
}
`},
	"part": {needs: []string{"cut", "readText"}, text: `
/** Returns the text after the i-th piece of a template. */
function part(it: Item, name: string, i: number, ...pieces: string[]): string {
  if (it[name] === undefined) {
    return "";
  }
  const found = cut(readText(it, name), ...pieces)?.[i];
  if (found === undefined) {
    throw new TypeError(` + "`the attribute ${name} is not of its form in the model`" + `);
  }
  return found;
}
`},
	"atMost": {text: `
/** Fails for a list that is longer than the model allows. */
function atMost(what: string, n: number, most: number): void {
  if (n > most) {
    throw new RangeError(` + "`${n} ${what} are too many: the limit is ${most}`" + `);
  }
}
`},
	"wrongType": {text: `
function wrongType(name: string, type: string): TypeError {
  return new TypeError(` + "`the attribute ${name} is missing or not of type ${type}`" + `);
}
`},
	"readText":     tsReader("readText", "S", "string"),
	"readDigits":   tsReader("readDigits", "N", "string"),
	"readBinary":   tsReader("readBinary", "B", "Uint8Array"),
	"readBool":     tsReader("readBool", "BOOL", "boolean"),
	"readTexts":    tsReader("readTexts", "SS", "string[]"),
	"readNumbers":  tsReader("readNumbers", "NS", "string[]"),
	"readBinaries": tsReader("readBinaries", "BS", "Uint8Array[]"),
	"readList":     tsReader("readList", "L", "AttributeValue[]"),
	"readMap":      tsReader("readMap", "M", "Record<string, AttributeValue>"),
}

// tsReader returns the function that reads an attribute of a type.
func tsReader(name, member, kind string) snippet {
	return snippet{needs: []string{"wrongType"}, text: `
function ` + name + `(it: Item, name: string): ` + kind + ` {
  const value = it[name]?.` + member + `;
  if (value === undefined) {
    throw wrongType(name, "` + member + `");
  }
  return value;
}
`}
}
