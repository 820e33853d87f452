// Plugins of test tools that are made for DynamoDB Local, or dynalite, with stator local in their place.

import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'

const run = promisify(execFile)

// started starts stator local, and returns its port.
async function started(t, ...args) {
  const server = spawn(process.env.STATOR, ['local', '-port', '0', ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.after(() => server.kill())
  let text = ''
  for await (const chunk of server.stdout) {
    text += chunk
    const port = /^Port:\t(\d+)$[^]*\n\n/m.exec(text)?.[1]
    if (port) return port
  }
  throw new Error(`stator local printed ${text}`)
}

// tool runs a program of node_modules in a folder.
async function tool(name, folder, args, env = {}) {
  try {
    const { stdout, stderr } = await run(join(import.meta.dirname, 'node_modules', '.bin', name), args, { cwd: join(import.meta.dirname, folder), env: { ...process.env, ...env }, timeout: 300_000 })
    return stdout + stderr
  } catch (error) {
    throw new Error(`${name}: ${error.message}\n${error.stdout}`)
  }
}

test('@shelf/jest-dynamodb uses a server that is running', async (t) => {
  const port = await started(t, '-inMemory', '-sharedDb')
  assert.match(await tool('jest', 'jest', [], { PORT: port }), /Tests: +2 passed/)
})

test('vitest-dynamodb-lite with stator-db/dynalite', async () => {
  assert.match(await tool('vitest', 'vitest', ['run'], { STATOR_BINARY: process.env.STATOR }), /Tests +2 passed/)
})

test('serverless-dynamodb with noStart makes the tables and items of serverless.yml', async (t) => {
  const port = await started(t, '-inMemory', '-sharedDb')
  const env = { PORT: port, SLS_TELEMETRY_DISABLED: '1', SLS_NOTIFICATIONS_MODE: 'off' }
  await tool('serverless', 'serverless', ['dynamodb', 'migrate'], env)
  await tool('serverless', 'serverless', ['dynamodb', 'seed'], env)
  const { DynamoDBClient, ScanCommand } = await import('@aws-sdk/client-dynamodb')
  const client = new DynamoDBClient({ endpoint: `http://127.0.0.1:${port}` })
  const { Items } = await client.send(new ScanCommand({ TableName: 'Orders' }))
  assert.deepEqual(Items, [{ id: { S: '1' }, total: { N: '42.5' } }])
})
