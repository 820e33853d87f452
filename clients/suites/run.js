// Runs the test suites that come with the npm packages of client libraries, whole, against
// the server at AWS_ENDPOINT_URL, and compares the tests that fail with expected.json.
//
//	node run.js            every suite
//	node run.js dyngoose   one suite

import {readFileSync} from 'node:fs'
import {mocha, tape} from './runners.js'
import {suites} from './suites.js'

const expected = JSON.parse(readFileSync('expected.json', 'utf8'))

// compare prints the outcome of a suite and reports whether it is the expected one.
function compare(name, {passed, failed, skipped}) {
    const reasons = expected[name] ?? {}
    console.log(`${name}: ${passed} passed, ${failed.size} failed, ${skipped.length} skipped`)
    let good = passed > 0
    for (const [title, message] of failed) {
        if (title in reasons) {
            console.log(`  expected: ${title}: ${reasons[title]}`)
        } else {
            console.log(`  FAILED: ${title}: ${message}`)
            good = false
        }
    }
    for (const title of skipped) console.log(`  skipped by the suite: ${title}`)
    for (const title of Object.keys(reasons)) {
        if (failed.has(title)) continue
        console.log(`  NOT FAILED: ${title}: remove it from expected.json`)
        good = false
    }
    return good
}

const chosen = process.argv.slice(2)
for (const name of chosen.length ? chosen : Object.keys(suites)) {
    const suite = suites[name]
    for (const left of suite.leftOut ?? []) console.log(`${name}: left out: ${left}`)
    suite.prepare?.()
    const outcome = suite.tape ? tape(suite) : mocha(suite)
    if (!compare(name, outcome)) process.exitCode = 1
}
