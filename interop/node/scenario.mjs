// The scenario of interop/run with Couchbase's SDK for Node. It prints one line per step.
import assert from 'node:assert'
import { createRequire } from 'node:module'

const couchbase = createRequire(process.env.COUCHCORE_NODE_MODULES + '/')('couchbase')
const cluster = await couchbase.connect(process.env.CONNECT, {
  username: process.env.LOGIN, password: process.env.PASSWORD,
})
const bucket = cluster.bucket('default')
const docs = bucket.defaultCollection()

async function control(method, path, body) {
  const answer = await fetch(process.env.CONTROL + path, { method, body: body && JSON.stringify(body) })
  assert.ok(answer.ok, await answer.text())
}

const steps = {
  connect: async () => assert.ok((await cluster.ping()).id),
  ready: async () => {
    await cluster.waitUntilReady(20000)
    await bucket.waitUntilReady(20000)
  },
  crud: async () => {
    await docs.upsert('k', { n: 1 })
    assert.deepEqual((await docs.get('k')).content, { n: 1 })
    await docs.insert('k2', { n: 2 })
    await docs.remove('k2')
    await assert.rejects(docs.get('k2'), couchbase.DocumentNotFoundError)
  },
  cas: async () => {
    const { cas } = await docs.get('k')
    await docs.replace('k', { n: 3 }, { cas })
    await assert.rejects(docs.replace('k', { n: 4 }, { cas }), couchbase.CasMismatchError)
  },
  counters: async () => {
    assert.equal((await docs.binary().increment('c', 5, { initial: 10 })).value, 10)
    assert.equal((await docs.binary().increment('c', 5, { initial: 10 })).value, 15)
  },
  subdocument: async () => {
    const { MutateInSpec: M, LookupInSpec: L } = couchbase
    await docs.mutateIn('k', [M.upsert('a.b', 7, { createPath: true }), M.upsert('x', 1, { xattr: true })])
    const got = await docs.lookupIn('k', [L.get('a.b'), L.exists('none'), L.get('x', { xattr: true })])
    assert.deepEqual(got.content.map((c) => c.value), [7, false, 1])
  },
  collections: async () => {
    await bucket.collections().createScope('s')
    await bucket.collections().createCollection('c', 's')
    const other = bucket.scope('s').collection('c')
    await other.upsert('k', { n: 'other' })
    assert.deepEqual((await other.get('k')).content, { n: 'other' })
    assert.ok((await bucket.collections().getAllScopes()).some((s) => s.name === 's'))
  },
  durability: async () => {
    const durabilityLevel = couchbase.DurabilityLevel.MajorityAndPersistOnMaster
    assert.ok((await docs.upsert('d', { n: 1 }, { durabilityLevel })).cas)
  },
  expiry: async () => {
    await docs.upsert('e', { n: 1 }, { expiry: 3600 })
    await control('POST', '/v1/clock', { advance_ms: 7200000 })
    assert.equal((await docs.exists('e')).exists, false)
  },
  replicas: async () => {
    assert.equal((await docs.getAnyReplica('k')).content.n, 3)
    assert.equal((await docs.getAllReplicas('k')).length, 2)
  },
  scan: async () => {
    for (let i = 0; i < 20; i++) await docs.upsert(`scan::${String(i).padStart(2, '0')}`, { n: i })
    assert.ok((await docs.scan(new couchbase.RangeScan())).length >= 20)
  },
  query: async () => {
    await cluster.query('CREATE PRIMARY INDEX IF NOT EXISTS ON `default`')
    const { rows } = await cluster.query(
      'SELECT d.n, META(d).id FROM `default` AS d WHERE META(d).id LIKE $like ORDER BY d.n DESC LIMIT 2',
      { parameters: { like: 'scan::%' } },
    )
    assert.deepEqual(rows, [{ n: 19, id: 'scan::19' }, { n: 18, id: 'scan::18' }])
  },
  search: async () => {
    await cluster.searchIndexes().upsertIndex({ name: 'find', sourceName: 'default', type: 'fulltext-index', sourceType: 'couchbase' })
    await docs.upsert('f1', { text: 'a quick fox', kind: 'animal' })
    await docs.upsert('f2', { text: 'a slow fox', kind: 'animal' })
    await docs.upsert('f3', { text: 'a stone', kind: 'thing' })
    const found = await cluster.search('find', couchbase.SearchRequest.create(couchbase.SearchQuery.match('fox').field('text')),
      { facets: { kinds: couchbase.SearchFacet.term('kind', 5) } })
    assert.deepEqual(found.rows.map((r) => r.id).sort(), ['f1', 'f2'])
    assert.equal(found.meta.facets.kinds.terms[0].count, 2)
  },
  views: async () => {
    await bucket.viewIndexes().upsertDesignDocument(new couchbase.DesignDocument({
      name: 'dd', views: { all: new couchbase.DesignDocumentView({ map: 'function (doc, meta) { emit(meta.id, doc.n); }' }) },
    }), couchbase.DesignDocumentNamespace.Production)
    const found = await bucket.viewQuery('dd', 'all', { key: 'scan::07', scanConsistency: couchbase.ViewScanConsistency.RequestPlus })
    assert.deepEqual(found.rows.map((r) => r.value), [7])
  },
  management: async () => {
    assert.ok((await cluster.buckets().getAllBuckets()).some((b) => b.name === 'default'))
    await cluster.users().upsertUser({ username: 'u', password: 'secret1', roles: [{ name: 'data_reader', bucket: 'default' }] })
    assert.deepEqual((await cluster.users().getAllUsers()).map((u) => u.username), ['u'])
    await cluster.queryIndexes().createIndex('default', 'by_n', ['n'])
    assert.ok((await cluster.queryIndexes().getAllIndexes('default')).some((i) => i.name === 'by_n'))
    assert.ok((await cluster.searchIndexes().getAllIndexes()).some((i) => i.name === 'find'))
  },
  transactions: async () => {
    await cluster.transactions().run(async (attempt) => {
      await attempt.replace(await attempt.get(docs, 'k'), { n: 'transaction' })
      await attempt.insert(docs, 't', { n: 1 })
      assert.deepEqual((await attempt.query('SELECT RAW 1')).rows, [1])
    })
    assert.deepEqual((await docs.get('k')).content, { n: 'transaction' })
    assert.ok((await docs.exists('t')).exists)
  },
  failover: async () => {
    for (let i = 0; i < 60; i++) {
      if (i === 20) await control('POST', '/v1/nodes/2/failover')
      const upsert = () => docs.upsert(`fail::${i}`, { n: i })
      await upsert().catch((e) => {
        if (!(e instanceof couchbase.RequestCanceledError)) throw e
        return upsert() // it was in flight when its node left
      })
    }
    for (let i = 0; i < 60; i++) assert.equal((await docs.get(`fail::${i}`)).content.n, i)
  },
}

for (const [name, step] of Object.entries(steps)) {
  try {
    await step()
    console.log(name, 'ok')
  } catch (e) {
    console.error(e)
    console.log(name, 'FAIL', String(e.message ?? e).replace(/\s+/g, ' ').slice(0, 300))
  }
}
await cluster.close()
