// Translates requests as they arrive over the protocol of DAX to requests of the JSON API: expressions to texts with
// placeholders for all names and values. It is for comparisons, and shares no code with the server.

import {createRequire} from 'node:module'
import {read, whole} from './cbor.js'

const LexDecimal = createRequire(import.meta.url)('@amazon-dax-sdk/client-dax/src/LexDecimal')

// catalog is what requests refer to: the keys of tables, and lists of attribute names.
export const catalog = () => ({keys: new Map(), lists: new Map([[1n, []]])})

// learn notes what the reply to a request defines.
export function learn(known, {operation, args}, {body, failure}) {
    if (failure) return
    if (operation === 'defineKeySchema') known.keys.set(String(args[0]), body.map.map(([name, type]) => ({name, type})))
    if (operation === 'defineAttributeListId') known.lists.set(body, args[0])
    if (operation === 'defineAttributeList') known.lists.set(args[0], body)
}

// attribute returns the JSON of a value.
export function attribute(v) {
    if (v === null) return {NULL: true}
    switch (typeof v) {
    case 'string': return {S: v}
    case 'boolean': return {BOOL: v}
    case 'bigint': return {N: String(v)}
    }
    if (Buffer.isBuffer(v)) return {B: v.toString('base64')}
    if (Array.isArray(v)) return {L: v.map(attribute)}
    if (v.map) return {M: Object.fromEntries(v.map.map(([name, value]) => [name, attribute(value)]))}
    switch (v.tag) {
    case 3321: return {SS: v.value}
    case 3322: return {NS: v.value.map(number)}
    case 3323: return {BS: v.value.map(b => b.toString('base64'))}
    }
    return {N: number(v)}
}

function number(v) {
    if (typeof v === 'bigint') return String(v)
    if ('float' in v) return String(v.float)
    switch (v.tag) {
    case 2: return String(BigInt('0x0' + v.value.toString('hex')))
    case 3: return String(-1n - BigInt('0x0' + v.value.toString('hex')))
    case 4: return `${number(v.value[1])}E${v.value[0]}`
    }
    throw new Error(`no number: ${JSON.stringify(v)}`)
}

const single = (type, b) => type === 'S' ? {S: b.toString('utf8')} : type === 'B' ? {B: b.toString('base64')} : undefined

function keyOf(known, table, b) {
    const schema = known.keys.get(String(table))
    if (!schema) throw new Error(`the key of ${table} is not known`)
    const [hash, range] = schema
    if (!range) return {[hash.name]: single(hash.type, b) ?? attribute(whole(b))}
    const [value, at] = read(b)
    const rest = b.subarray(at)
    let sort = single(range.type, rest)
    if (!sort) {
        const found = []
        LexDecimal.decode(rest, 0, found)
        sort = {N: String(found[0])}
    }
    return {[hash.name]: attribute(value), [range.name]: sort}
}

function itemOf(known, table, key, b) {
    const item = keyOf(known, table, key)
    let [id, at] = read(b)
    const names = known.lists.get(id)
    if (!names) throw new Error(`the attribute list ${id} is not known`)
    for (const name of names) {
        const [value, to] = read(b, at)
        item[name] = attribute(value)
        at = to
    }
    return item
}

// placeholders are those of one request.
class Placeholders {
    names = new Map()
    values = new Map()

    name(n) {
        if (!this.names.has(n)) this.names.set(n, `#n${this.names.size}`)
        return this.names.get(n)
    }
    value(v) {
        const name = `:v${this.values.size}`
        this.values.set(name, attribute(v))
        return name
    }
    into(request) {
        if (this.names.size) request.ExpressionAttributeNames = Object.fromEntries([...this.names].map(([n, p]) => [p, n]))
        if (this.values.size) request.ExpressionAttributeValues = Object.fromEntries(this.values)
        return request
    }
}

const comparators = ['=', '<>', '<', '>=', '>', '<=']
const functions = {11: 'attribute_exists', 12: 'attribute_not_exists', 13: 'attribute_type', 14: 'begins_with', 15: 'contains', 16: 'size', 23: 'if_not_exists', 24: 'list_append'}
const joins = {6: ' AND ', 7: ' OR '}

// text returns the text of a node.
function text(node, values, p) {
    const [op, ...args] = node
    const n = Number(op), of = i => text(args[i], values, p)
    if (n <= 5) return `${of(0)} ${comparators[n]} ${of(1)}`
    if (joins[n]) {
        const side = (i, same) => { const other = Number(args[i][0]); return other === 6 || other === 7 ? (same && other === n ? of(i) : `(${of(i)})`) : of(i) }
        return side(0, true) + joins[n] + side(1, false)
    }
    switch (n) {
    case 8: return `NOT (${of(0)})`
    case 9: return `${of(0)} BETWEEN ${of(1)} AND ${of(2)}`
    case 10: return `${of(0)} IN (${args[1].map(a => text(a, values, p)).join(', ')})`
    case 17: return p.value(values[Number(args[0])])
    case 18: return args.map((step, i) => step.tag ? `[${step.value}]` : (i ? '.' : '') + p.name(step)).join('')
    case 25: return `${of(0)} + ${of(1)}`
    case 26: return `${of(0)} - ${of(1)}`
    }
    if (functions[n]) return `${functions[n]}(${args.map((_, i) => of(i)).join(', ')})`
    throw new Error(`there is no node ${n}`)
}

const verbs = {19: 'SET', 20: 'ADD', 21: 'DELETE', 22: 'REMOVE'}

const condition = (b, p) => { const [, tree, values] = whole(b); return text(tree, values, p) }
const projection = (b, p) => whole(b)[1].map(node => text(node, [], p)).join(', ')

function update(b, p) {
    const [, actions, values] = whole(b)
    let last, out = ''
    for (const [verb, ...args] of actions) {
        out += verb === last ? ', ' : ` ${verbs[Number(verb)]} `
        out += args.map(a => text(a, values, p)).join(Number(verb) === 19 ? ' = ' : ' ')
        last = verb
    }
    return out.trim()
}

const words = {
    3: ['ReturnConsumedCapacity', 'NONE', 'TOTAL', 'INDEXES'], 6: ['ReturnItemCollectionMetrics', 'NONE', 'SIZE'],
    7: ['ReturnValues', , 'NONE', 'ALL_OLD', 'UPDATED_OLD', 'ALL_NEW', 'UPDATED_NEW'],
    15: ['Select', , 'ALL_ATTRIBUTES', 'ALL_PROJECTED_ATTRIBUTES', 'COUNT', 'SPECIFIC_ATTRIBUTES'],
}

function options(known, table, list, p) {
    const out = {}, all = new Map((list?.map ?? []).map(([n, v]) => [Number(n), v]))
    for (const [n, v] of all) switch (n) {
    case 0: out.ProjectionExpression = projection(v, p); break
    case 2: out.ConsistentRead = v === true || v === 1n; break
    case 4: out.ConditionExpression = condition(v, p); break
    case 8: out.UpdateExpression = update(v, p); break
    case 9: out.ExclusiveStartKey = all.has(11) ? attribute(whole(v)).M : keyOf(known, table, v); break
    case 10: out.FilterExpression = condition(v, p); break
    case 11: out.IndexName = String(v); break
    case 13: out.Limit = Number(v); break
    case 14: out.ScanIndexForward = v === true || v === 1n; break
    case 16: out.Segment = Number(v); break
    case 17: out.TotalSegments = Number(v); break
    case 19: out.ClientRequestToken = v; break
    default:
        if (!words[n]) throw new Error(`there is no option ${n}`)
        out[words[n][0]] = words[n][Number(v) + 1]
    }
    return out
}

const actions = {2: 'Put', 7: 'Delete', 9: 'Update', 12: 'ConditionCheck'}

// translate returns the body of the JSON request, with what it writes: tables and keys.
export function translate(known, {operation, args}, agent) {
    const p = new Placeholders(), keys = []
    const TableName = String(args[0])
    const keyed = (table, b) => { const Key = keyOf(known, table, b); keys.push({TableName: table, Key}); return Key }
    const one = more => p.into({TableName, ...more, ...options(known, TableName, args.at(-1), p)})
    switch (operation) {
    case 'GetItem': return {body: one({Key: keyOf(known, TableName, args[1])}), keys}
    case 'DeleteItem': case 'UpdateItem': return {body: one({Key: keyed(TableName, args[1])}), keys}
    case 'PutItem':
        keyed(TableName, args[1])
        return {body: one({Item: itemOf(known, TableName, args[1], args[2])}), keys}
    case 'Query': {
        const body = one(args[1] === null ? {} : {KeyConditionExpression: condition(args[1], p)})
        if (/^DaxGo/.test(agent) && body.Select === 'ALL_ATTRIBUTES') delete body.Select // the client for Go sends it always
        return {body, keys}
    }
    case 'Scan': {
        const body = one({})
        if (/^DaxGo/.test(agent) && body.Select === 'ALL_ATTRIBUTES') delete body.Select
        return {body, keys}
    }
    case 'BatchGetItem': {
        const RequestItems = Object.fromEntries(args[0].map.map(([table, [consistent, paths, list]]) => {
            const own = new Placeholders()
            const part = {Keys: list.map(b => keyOf(known, table, b)), ConsistentRead: consistent}
            if (paths !== null) part.ProjectionExpression = projection(paths, own)
            return [table, own.into(part)]
        }))
        return {body: {RequestItems, ...options(known, '', args[1], p)}, keys}
    }
    case 'BatchWriteItem': {
        const RequestItems = Object.fromEntries(args[0].map.map(([table, list]) => [table, Array.from({length: list.length / 2}, (_, i) => {
            const [key, rest] = [list[2 * i], list[2 * i + 1]]
            const Key = keyed(table, key)
            return rest === null ? {DeleteRequest: {Key}} : {PutRequest: {Item: itemOf(known, table, key, rest)}}
        })]))
        return {body: {RequestItems, ...options(known, '', args[1], p)}, keys}
    }
    case 'TransactGetItems':
        return {body: {TransactItems: (args[0] ?? []).map((table, i) => {
            const own = new Placeholders(), Get = {TableName: String(table), Key: keyOf(known, table, args[1][i])}
            if (args[2]?.[i]) Get.ProjectionExpression = projection(args[2][i], own)
            return {Get: own.into(Get)}
        }), ...options(known, '', args[3], p)}, keys}
    case 'TransactWriteItems':
        return {body: {TransactItems: (args[0] ?? []).map((kind, i) => {
            const own = new Placeholders(), table = String(args[1][i]), action = {TableName: table}
            const Key = keyed(table, args[2][i])
            if (Number(kind) === 2) action.Item = itemOf(known, table, args[2][i], args[3][i])
            else action.Key = Key
            if (args[7]?.[i]) action.UpdateExpression = update(args[7][i], own)
            if (args[6]?.[i]) action.ConditionExpression = condition(args[6][i], own)
            const failed = [, 'NONE', 'ALL_OLD'][Number(args[5]?.[i] ?? 0)]
            if (failed) action.ReturnValuesOnConditionCheckFailure = failed
            return {[actions[Number(kind)]]: own.into(action)}
        }), ...options(known, '', args[8], p)}, keys}
    }
    throw new Error(`there is no operation ${operation}`)
}
