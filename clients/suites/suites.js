// The suites: which files to run with mocha or tape, and how each library is given the endpoint.

import {mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs'
import {dirname, join} from 'node:path'
import ts from 'typescript'

const endpoint = process.env.AWS_ENDPOINT_URL

const quiet = {AWS_SDK_JS_SUPPRESS_MAINTENANCE_MODE_MESSAGE: '1'}

// dyno comes first: its tests of ListTables want a server without other tables.
export const suites = {
    dyno: {
        env: quiet,
        tape: ['cli', 'index', 'paginated', 'requests', 'serialization', 'stream', 'table', 'util']
            .map(name => `node_modules/@mapbox/dyno/test/${name}.test.js`),
        require: './dyno-endpoint.cjs',
    },
    'connect-dynamodb': {
        env: {ENDPOINT: endpoint},
        mocha: ['node_modules/connect-dynamodb/test/test.js'],
    },
    dyngoose: {
        prepare: () => compile('node_modules/dyngoose/src', 'build/dyngoose'),
        env: {DYNAMO_ENDPOINT: endpoint},
        mocha: ['--ignore', 'build/dyngoose/utils/cdk.spec.js', 'build/dyngoose/**/*.spec.js'],
        leftOut: ['utils/cdk.spec.ts, which needs the AWS CDK and no server'],
    },
    dynogels: {
        env: quiet,
        require: './dynogels-endpoint.cjs',
        mocha: ['node_modules/dynogels/test/**/*-test.js'],
    },
}

// compile translates the TypeScript files of a package, which publishes its tests as
// source only, with the compiler options of its tsconfig.json.
function compile(from, to) {
    rmSync(to, {recursive: true, force: true})
    const {config} = ts.readConfigFile(join(dirname(from), 'tsconfig.json'), ts.sys.readFile)
    const {options} = ts.convertCompilerOptionsFromJson(config.compilerOptions, '.')
    for (const file of readdirSync(from, {recursive: true})) {
        if (!file.endsWith('.ts')) continue
        const source = readFileSync(join(from, file), 'utf8')
        const target = join(to, file.replace(/ts$/, 'js'))
        mkdirSync(dirname(target), {recursive: true})
        writeFileSync(target, ts.transpileModule(source, {fileName: file, compilerOptions: options}).outputText)
    }
    writeFileSync(join(to, 'package.json'), '{"type": "commonjs"}')
}
