// The keys that examples/models/export-schema.mjs exports are those that the libraries
// write.

import assert from 'node:assert/strict'
import {test} from 'node:test'
import {DynamoDBClient} from '@aws-sdk/client-dynamodb'
import {Entity, EntityDTO, PutItemCommand, Table, item, map, number, prefix, set, string} from 'dynamodb-toolbox'
import {Table as OneTable} from 'dynamodb-onetable'
import {oneTable, toolbox} from '../../../examples/models/export-schema.mjs'

// fill replaces the placeholders of a text by values.
const fill = (text, values) => text.replace(/\$\{([^}:]+)(?::(\d+):(.))?\}/g, (_, name, length, pad) =>
    length ? String(values[name]).padStart(Number(length), pad) : values[name])

test('dynamodb-toolbox', () => {
    const table = new Table({
        name: 'Game', partitionKey: {name: 'pk', type: 'string'}, sortKey: {name: 'sk', type: 'string'},
        indexes: {
            gs1: {type: 'global', partitionKey: {name: 'gs1pk', type: 'string'}, sortKey: {name: 'gs1sk', type: 'string'}},
            byLevel: {type: 'global', partitionKey: {name: 'trainer', type: 'string'}, sortKey: {name: 'level', type: 'number'}},
            byName: {type: 'local', sortKey: {name: 'name', type: 'string'}},
        },
    })
    const Pokemon = new Entity({
        name: 'Pokemon',
        table,
        schema: item({
            region: string().key().savedAs('pk').transform(prefix('REGION')),
            id: string().key().savedAs('sk'),
            name: string(), trainer: string().optional(), level: number().default(1), types: set(string()).optional(),
            stats: map({hp: number()}).optional(), status: string().enum('FREE', 'CAUGHT').default('FREE'),
        }).and(() => ({
            gs1pk: string().link(({status}) => `STATUS#${status}`),
            gs1sk: string().link(({level, id}) => `${String(level).padStart(3, '0')}#${id}`).transform(prefix('LEVEL')),
        })),
    })
    const Trainer = new Entity({
        name: 'Trainer',
        table,
        schema: item({id: string().key(), city: string().transform({encode: c => `city:${c}`, decode: c => c.slice(5)})}),
        computeKey: ({id}) => ({pk: `TRAINER#${id}`, sk: 'PROFILE'}),
        timestamps: {created: {name: 'createdAt', savedAs: 'madeAt'}, modified: false},
    })
    const [pokemon, trainer] = toolbox(EntityDTO, [Pokemon, Trainer])
    const values = {region: 'kanto', id: '25', name: 'pikachu', level: 7, status: 'CAUGHT'}
    const {Item: put} = Pokemon.build(PutItemCommand).item(values).params()
    assert.equal(put.pk, 'REGION#kanto')
    assert.deepEqual(pokemon.schema.attributes.region.transform, {transformerId: 'prefix', prefix: 'REGION', delimiter: '#'})
    assert.equal(fill(pokemon.schema.attributes.gs1pk.link, values), put.gs1pk)
    assert.equal('LEVEL#' + fill(pokemon.schema.attributes.gs1sk.link, values), put.gs1sk)
    assert.equal(put._et, 'Pokemon')
    assert.ok(put._ct && put._md)

    const {Item: profile} = Trainer.build(PutItemCommand).item({id: '1', city: 'x'}).params()
    assert.equal(fill(trainer.computedKey.pk, {id: '1'}), profile.pk)
    assert.equal(trainer.computedKey.sk, profile.sk)
    assert.equal(fill(trainer.schema.attributes.city.transform.text, {city: 'x'}), profile.city)
    assert.ok(profile.madeAt)
    if (process.env.WRITE_SCHEMA) {
        console.log(JSON.stringify([pokemon, trainer], null, 2))
    }

    const Odd = new Entity({name: 'Odd', table, schema: item({at: number().key()}), computeKey: ({at}) => ({pk: at.toISOString(), sk: 'x'})})
    assert.throws(() => toolbox(EntityDTO, [Odd]), /the key of Odd is computed by a function/)
})

test('OneTable', async () => {
    const value = (model, path, properties) => ({pk: `${model.name}#${properties.id}`, sk: `N#${String(properties.number).padStart(6, '0')}`})[path]
    const schema = {
        format: 'onetable:1.1.0', version: '0.0.1', indexes: {primary: {hash: 'pk', sort: 'sk'}},
        models: {Member: {pk: {type: String, value: true}, sk: {type: String, value: true}, id: {type: String, required: true}, number: {type: Number, required: true}}},
    }
    const exported = oneTable(schema, value)
    assert.equal(exported.models.Member.number.type, 'Number')
    const table = new OneTable({client: new DynamoDBClient(), name: 'One', schema, value, partial: true})
    const written = await table.getModel('Member').create({id: '1', number: 42}, {execute: false})
    assert.equal(fill(exported.models.Member.pk.value, {id: '1', number: 42}), written.Item.pk.S)
    assert.equal(fill(exported.models.Member.sk.value, {id: '1', number: 42}), written.Item.sk.S)
})
