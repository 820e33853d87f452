// Runs the test suites that come with the npm packages of client libraries, whole, against
// the server at AWS_ENDPOINT_URL, and compares the tests that fail with expected.json.
//
//    node run.js            every suite
//    node run.js dyngoose   one suite

import {spawnSync} from 'node:child_process'
import {mkdtempSync, readFileSync, rmSync} from 'node:fs'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {suites} from './suites.js'

const expected = JSON.parse(readFileSync('expected.json', 'utf8'))

function run(name, suite) {
    suite.prepare?.()
    const folder = mkdtempSync(join(tmpdir(), 'stator-suite-'))
    try {
        const report = join(folder, 'report.json')
        const args = ['node_modules/mocha/bin/mocha.js', '--exit', '--timeout', '20000',
            '--reporter', 'json', '--reporter-option', `output=${report}`, ...suite.mocha]
        const {stderr} = spawnSync(process.execPath, args, {
            env: {...process.env, ...suite.env}, encoding: 'utf8', maxBuffer: 1 << 28,
        })
        return read(report, stderr)
    } finally {
        rmSync(folder, {recursive: true})
    }
}

function read(report, stderr) {
    try {
        return JSON.parse(readFileSync(report, 'utf8'))
    } catch (err) {
        throw new Error(`the suite wrote no report: ${err.message}\n${stderr}`)
    }
}

// compare prints the outcome of a suite and reports whether it is the expected one.
function compare(name, outcome) {
    const reasons = expected[name] ?? {}
    const failed = new Map(outcome.failures.map(test => [test.fullTitle, test.err.message]))
    const {passes, failures, pending} = outcome.stats
    console.log(`${name}: ${passes} passed, ${failures} failed, ${pending} skipped`)
    let good = passes > 0
    for (const [title, message] of failed) {
        if (title in reasons) {
            console.log(`  expected: ${title}: ${reasons[title]}`)
        } else {
            console.log(`  FAILED: ${title}: ${message}`)
            good = false
        }
    }
    for (const test of outcome.pending) console.log(`  skipped by the suite: ${test.fullTitle}`)
    for (const title of Object.keys(reasons)) {
        if (failed.has(title)) continue
        console.log(`  NOT FAILED: ${title}: remove it from expected.json`)
        good = false
    }
    return good
}

const chosen = process.argv.slice(2)
for (const name of chosen.length ? chosen : Object.keys(suites)) {
    for (const left of suites[name].leftOut ?? []) console.log(`${name}: left out: ${left}`)
    if (!compare(name, run(name, suites[name]))) process.exitCode = 1
}
