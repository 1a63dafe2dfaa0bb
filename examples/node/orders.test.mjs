// An injected failure, a rebalance in the middle, a scripted query, and a look at what was sent.
// Run it with COUCHCORE naming the couchcore command:  node --test orders.test.mjs
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import couchbase from 'couchbase'

test('orders', async (t) => {
  const args = ['mock', '--nodes', '2', '--exit-on-stdin-close']
  const mock = spawn(process.env.COUCHCORE ?? 'couchcore', args, { stdio: ['pipe', 'pipe', 'inherit'] })
  t.after(() => mock.stdin.end())
  const ready = await new Promise((resolve) =>
    createInterface({ input: mock.stdout }).once('line', (line) => resolve(JSON.parse(line))))

  const control = async (method, path, body) => {
    const answer = await fetch(ready.control_api + path, { method, body: body && JSON.stringify(body) })
    assert.ok(answer.ok, await answer.clone().text())
    return answer.json()
  }
  const cluster = await couchbase.connect(ready.connection_string, { username: ready.username, password: ready.password })
  t.after(() => cluster.close())
  const orders = cluster.bucket('default').defaultCollection()

  // The first two writes of this key fail for now; the client tries again.
  const fault = await control('POST', '/v1/injections', {
    match: { opcodes: ['SET'], key: 'order::1', times: 2 },
    fault: { status: 'ETMPFAIL' },
  })
  await orders.upsert('order::1', { n: 1 })
  assert.equal((await control('GET', '/v1/injections/' + fault.id)).fired, 2)

  // A node joins while documents are written.
  for (let i = 0; i < 100; i++) {
    if (i === 50) {
      await control('POST', '/v1/nodes')
      await control('POST', '/v1/cluster/rebalance')
    }
    await orders.upsert(`order::${i}`, { n: i })
  }
  assert.deepEqual((await orders.get('order::99')).content, { n: 99 })

  await control('POST', '/v1/scripts', {
    match: { service: 'query', statement: 'FROM orders' },
    answers: [{ rows: [{ total: 42 }] }],
  })
  assert.deepEqual((await cluster.query('SELECT total FROM orders')).rows, [{ total: 42 }])

  // Two failures, one success, and one write more in the loop.
  const sent = await control('GET', '/v1/logs/frames?key=order::1&opcodes=SET')
  assert.deepEqual(sent.items.map((frame) => JSON.parse(frame.value)), Array(4).fill({ n: 1 }))
})
