// Exports schemas of JavaScript libraries for `stator model import`. Keys that functions
// compute are exported as text such as "ORDER#${orderId}": the functions are called with
// such placeholders instead of values.
//
//     import {writeFileSync} from 'node:fs'
//     import {EntityDTO} from 'dynamodb-toolbox'
//     import {oneTable, toolbox} from './export-schema.mjs'
//     writeFileSync('schema.json', JSON.stringify(toolbox(EntityDTO, [Order, Customer])))
//     writeFileSync('schema.json', JSON.stringify(oneTable(schema, value)))

const placeholders = new Proxy({}, {get: (_, name) => (typeof name === 'string' ? '${' + name + '}' : undefined)})

// textOf calls a function with placeholders. A number that it pads becomes ${name:5:0}.
function textOf(what, fn) {
    const padStart = String.prototype.padStart
    String.prototype.padStart = function (length, pad = ' ') {
        const name = /^\$\{([^}:]+)\}$/.exec(this)
        return name ? '${' + `${name[1]}:${length}:${pad}` + '}' : padStart.call(this, length, pad)
    }
    try {
        return fn()
    } catch (err) {
        throw new Error(`${what} is computed by a function that needs values: ${err.message}. Write its text into the schema by hand.`)
    } finally {
        String.prototype.padStart = padStart
    }
}

// toolbox returns entities of dynamodb-toolbox as EntityDTO describes them, with the texts
// of computed keys, of links and of transformers.
export function toolbox(EntityDTO, entities) {
    return entities.map(entity => {
        const dto = structuredClone(entity.build(EntityDTO).toJSON())
        if (entity.computeKey) {
            dto.computedKey = textOf(`the key of ${entity.entityName}`, () => entity.computeKey(placeholders))
        }
        for (const [name, {props}] of Object.entries(entity.schema.attributes)) {
            const described = dto.schema.attributes[name]
            const what = `${name} of ${entity.entityName}`
            const link = props.keyLink ?? props.putLink
            const own = ['entity', 'created', 'modified'].includes(name) && !entity.attributes[name]
            if (typeof link === 'function' && described && !own) {
                described.link = textOf(what, () => link(placeholders))
            }
            if (described?.transform?.transformerId === 'custom' || (props.transform && described && !described.transform)) {
                const text = textOf(what, () => props.transform.encode('${' + name + '}'))
                described.transform = typeof text === 'string' ? {text} : {transformerId: 'custom'}
            }
        }
        return dto
    })
}

// oneTable returns a schema of OneTable with the names of its types, and with the texts of
// values that a function computes, which is the parameter value of OneTable's Table.
export function oneTable(schema, value) {
    const models = {}
    for (const [model, fields] of Object.entries(schema.models)) {
        models[model] = {}
        for (const [name, field] of Object.entries(fields)) {
            models[model][name] = field
            if (field.value === true && value) {
                models[model][name] = {...field, value: textOf(`${name} of ${model}`, () => value({name: model}, name, placeholders, {}))}
            }
        }
    }
    return JSON.parse(JSON.stringify({...schema, models}, (_, v) => (typeof v === 'function' ? v.name : v)))
}
