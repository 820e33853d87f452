// Runners of suites. Each returns the number of tests that passed, the tests that failed
// with their messages, and the tests that the suite skips.

import {spawnSync} from 'node:child_process'
import {mkdtempSync, readFileSync, rmSync} from 'node:fs'
import {tmpdir} from 'node:os'
import {basename, join} from 'node:path'

// node runs a command of a package to its end, after loading the suite's own module.
function node(suite, command, args) {
    const load = suite.require ? ['--require', suite.require] : []
    return spawnSync(process.execPath, [...load, command, ...args], {
        env: {...process.env, ...suite.env}, encoding: 'utf8', maxBuffer: 1 << 28,
    })
}

export function mocha(suite) {
    const folder = mkdtempSync(join(tmpdir(), 'stator-suite-'))
    const report = join(folder, 'report.json')
    try {
        const {stderr} = node(suite, 'node_modules/mocha/bin/_mocha', ['--exit', '--timeout', '20000',
            '--reporter', 'json', '--reporter-option', `output=${report}`, ...suite.mocha])
        const outcome = readReport(report, stderr)
        return {
            passed: outcome.stats.passes,
            failed: new Map(outcome.failures.map(test => [test.fullTitle, test.err.message])),
            skipped: outcome.pending.map(test => test.fullTitle),
        }
    } finally {
        rmSync(folder, {recursive: true})
    }
}

function readReport(report, stderr) {
    try {
        return JSON.parse(readFileSync(report, 'utf8'))
    } catch (err) {
        throw new Error(`the suite wrote no report: ${err.message}\n${stderr}`)
    }
}

// tape runs each file in a process of its own, and counts assertions.
export function tape(suite) {
    const outcome = {passed: 0, failed: new Map(), skipped: []}
    for (const file of suite.tape) {
        const {stdout, stderr} = node(suite, 'node_modules/tape/bin/tape', [file])
        addTAP(outcome, stdout)
        // A file that ends early prints no plan.
        if (!/^1\.\.\d+$/m.test(stdout)) outcome.failed.set(basename(file), `the file did not end: ${stderr}`)
    }
    return outcome
}

function addTAP(outcome, text) {
    let title = ''
    for (const line of text.split('\n')) {
        const [, heading] = line.match(/^# (.*)/) ?? []
        const [, not, message] = line.match(/^(not )?ok \d+ (.*)/) ?? []
        if (heading) title = heading
        else if (message?.includes('# SKIP')) outcome.skipped.push(`${title}: ${message}`)
        else if (not) outcome.failed.set(`${title}: ${message}`, 'see the suite')
        else if (message !== undefined) outcome.passed++
    }
}
