'use strict';
// Everything that comes over the wire is put into the page as text, never as markup.

const kept = 200; // rows of a table
const opcodes = ['GET', 'SET', 'ADD', 'REPLACE', 'DELETE', 'INCREMENT', 'TOUCH', 'GAT', 'GET_LOCKED', 'UNLOCK_KEY',
  'SUBDOC_MULTI_LOOKUP', 'SUBDOC_MULTI_MUTATION', 'GET_REPLICA', 'OBSERVE', 'HELLO', 'SASL_AUTH', 'SELECT_BUCKET',
  'GET_CLUSTER_CONFIG'];
const faults = [
  ['answer ETMPFAIL', {status: 'ETMPFAIL'}], ['answer EBUSY', {status: 'EBUSY'}], ['answer LOCKED', {status: 'LOCKED'}],
  ['execute, answer ETMPFAIL', {status_after: 'ETMPFAIL'}],
  ['execute 500 ms later', {delay_ms: 500}], ['answer 500 ms later', {delay_reply_ms: 500}],
  ['answer 5 s later', {delay_reply_ms: 5000}], ['hold until released', {hold: true}],
  ['lose the request', {drop: true}], ['execute, lose the answer', {drop_reply: true}],
  ['close instead of executing', {close: 'before'}], ['execute, close instead of answering', {close: 'after'}],
  ['close in the middle of the answer', {truncate: 12}], ['answer with a wrong opaque', {corrupt: 'opaque'}],
  ['answer two times', {twice: true}], ['not my vbucket', {not_my_vbucket: true}],
  ['acknowledge, lose the write', {lose_write: true}],
];
const $ = id => document.getElementById(id);
const element = (tag, className, ...children) => {
  const e = document.createElement(tag);
  e.className = className;
  e.append(...children.map(c => c instanceof Node ? c : String(c)));
  return e;
};
const button = (text, label, act) => {
  const b = element('button', '', text);
  b.type = 'button';
  b.setAttribute('aria-label', label);
  b.addEventListener('click', act);
  return b;
};
const option = (text, value) => new Option(text, value);
const colour = node => node < 0 ? 'hsl(0 0% 50%)' : `hsl(${(211 + node * 137.5) % 360} 62% 52%)`;
const dot = node => {
  const d = element('span', 'dot');
  d.style.setProperty('--node', colour(node));
  return d;
};
const duration = us => us < 1000 ? `${us}\xa0µs` : us < 1e6 ? `${(us / 1000).toPrecision(3)}\xa0ms` : `${(us / 1e6).toPrecision(3)}\xa0s`;
const clock = at => {
  const t = at ? new Date(at) : new Date();
  return t.toTimeString().slice(0, 8) + '.' + String(t.getMilliseconds()).padStart(3, '0');
};

// The control API, which does what the buttons say.
async function api(method, path, body) {
  const answer = await fetch(path, {method, body: body && JSON.stringify(body)});
  const out = await answer.json();
  const failed = answer.ok ? '' : `${method} ${path}: ${out.error.field ? out.error.field + ': ' : ''}${out.error.message}`;
  $('failure').textContent = failed;
  $('failure').hidden = !failed;
  if (failed) throw new Error(failed);
  return out;
}
const act = (method, path, body) => () => api(method, path, body).catch(fail);
function fail(e) {
  $('failure').textContent = e.message;
  $('failure').hidden = false;
}

// Nodes: a card each, which is changed in place.
const cards = new Map();
const loads = new Map(); // of the second that is under way

function card(n) {
  const at = `/v1/nodes/${n}/`;
  const c = {state: element('span', ''), address: element('span', 'mono dim'), figures: element('div', 'figures')};
  c.toggle = button('', '', () => act('POST', at + (c.up ? 'kill' : 'respawn'))());
  c.silence = button('', '', () => act('POST', at + (c.suspended ? 'resume' : 'suspend'))());
  c.failover = button('Fail over', `Fail over node ${n}`, act('POST', at + 'failover', {}));
  c.remove = button('Remove', `Remove node ${n}`, act('POST', at + 'remove'));
  c.disconnect = button('Disconnect', `Disconnect the clients of node ${n}`, act('POST', at + 'disconnect', {}));
  c.box = element('article', 'node', element('div', '', element('b', '', `Node ${n}`), c.state, c.address), c.figures,
    element('div', '', c.toggle, c.silence, c.failover, c.remove, c.disconnect));
  c.box.style.setProperty('--node', colour(n));
  c.box.setAttribute('aria-label', `Node ${n}`);
  $('nodes').append(c.box);
  $('fault').node.append(option(n, n));
  return c;
}

function showNode(n) {
  if (!cards.has(n.node)) cards.set(n.node, card(n.node));
  const c = cards.get(n.node);
  Object.assign(c, {up: n.up, suspended: n.suspended, connections: n.connections});
  const words = [n.membership, n.up ? 'up' : 'down'];
  if (n.suspended) words.push('silent');
  const f = n.connection_faults;
  if (f) words.push(f.latency_ms ? `${f.latency_ms} ms late` : 'faulty connections');
  c.state.textContent = words.join(', ');
  c.state.className = !n.up ? 'bad' : words.length > 2 || n.membership !== 'active' ? 'warn' : 'good';
  c.box.classList.toggle('down', !n.up);
  c.address.textContent = n.addresses.kv || '';
  for (const [b, text] of [[c.toggle, n.up ? 'Kill' : 'Respawn'], [c.silence, n.suspended ? 'Resume' : 'Suspend']]) {
    b.textContent = text;
    b.setAttribute('aria-label', `${text} node ${n.node}`);
  }
  c.toggle.hidden = false;
  c.failover.disabled = c.remove.disabled = n.membership === 'out';
  c.silence.disabled = c.disconnect.disabled = !n.up;
  if (n.membership === 'out' && n.up) { // it runs outside of the cluster: it can join again
    c.up = false;
    c.toggle.textContent = 'Join again';
    c.toggle.setAttribute('aria-label', `Let node ${n.node} join again`);
  }
}

setInterval(() => {
  for (const [n, c] of cards) {
    const l = loads.get(n) || {requests: 0, failures: 0};
    const late = l.requests ? ` · p50 ${duration(l.p50_us)} · p99 ${duration(l.p99_us)}` : '';
    c.figures.replaceChildren(`conns ${c.connections} · `, element('b', '', l.requests.toLocaleString()), ` req/s${late}`,
      l.failures ? element('span', 'bad', ` · ${l.failures.toLocaleString()} failed`) : '');
  }
  loads.clear();
  paint();
}, 1000);

// The map: a cell for each vbucket, in its node's colour. Those that were just used are light.
let rows = [], columns = 1, version = '', shown = '', used = new Set();

async function loadMap() {
  shown = version + $('bucket').value;
  rows = (await api('GET', `/v1/buckets/${encodeURIComponent($('bucket').value)}/map`)).rows || [];
  const copies = rows.length ? rows[0].length : 1, was = $('copy').value || 0;
  $('copy').replaceChildren(...Array.from({length: copies}, (_, i) => option(i ? `replica ${i}` : 'active', i)));
  $('copy').value = Math.min(was, copies - 1);
  columns = Math.max(1, Math.ceil(Math.sqrt(rows.length * 4)));
  $('map').width = columns;
  $('map').height = Math.max(1, Math.ceil(rows.length / columns));
  paint();
}

function paint() {
  const c = $('map').getContext('2d'), place = Number($('copy').value), counts = new Map();
  rows.forEach((row, vb) => {
    const node = row[place] ?? -1;
    counts.set(node, (counts.get(node) || 0) + 1);
    c.fillStyle = colour(node);
    c.fillRect(vb % columns, Math.floor(vb / columns), 1, 1);
    if (!used.has(vb)) return;
    c.fillStyle = 'rgb(255 255 255 / 0.75)';
    c.fillRect(vb % columns, Math.floor(vb / columns), 1, 1);
  });
  const parts = [...counts].sort((a, b) => a[0] - b[0])
    .map(([n, count]) => [n, `${n < 0 ? 'no node' : 'node ' + n}: ${count}`]);
  $('map-text').replaceChildren(...parts.flatMap(([n, text]) => [dot(n), text + '  ']));
  $('map').setAttribute('aria-label', `${rows.length} vbuckets, ${parts.map(p => p[1]).join(', ')}`);
}

$('map').addEventListener('mousemove', e => {
  const size = $('map').clientWidth / columns;
  const vb = Math.floor(e.offsetY / size) * columns + Math.floor(e.offsetX / size);
  $('map').title = rows[vb] ? `vbucket ${vb}: active ${rows[vb][0]}, replicas ${rows[vb].slice(1).join(' ') || 'none'}` : '';
});
for (const id of ['bucket', 'copy']) $(id).addEventListener('change', () => loadMap().catch(fail));

// Injections.
function showInjection(i) {
  const {match = {}, fault = {}} = i.what;
  const text = v => v === true ? '' : ' ' + (v instanceof Object && !Array.isArray(v) ? JSON.stringify(v) : v);
  const say = o => Object.entries(o).map(([k, v]) => k.replaceAll('_', ' ') + text(v)).join(', ');
  const used = match.times && i.fired >= match.times ? 'dim' : '';
  const li = element('li', used, element('span', '', `${i.id}: ${say(match) || 'all requests'}: ${say(fault) || 'faults in turn'}; met ${i.fired}`));
  const buttons = element('span', '');
  if (fault.hold || fault.hold_reply) {
    buttons.append(button('Release', `Release ${i.id}`, act('POST', `/v1/injections/${i.id}/release`)));
  }
  buttons.append(button('End', `End ${i.id}`, act('DELETE', `/v1/injections/${i.id}`)));
  li.append(buttons);
  return li;
}

// Tables, newest first.
function prepend(body, list) {
  body.prepend(...list.reverse());
  while (body.rows.length > kept) body.deleteRow(-1);
}

const row = cells => {
  const tr = element('tr', '');
  tr.append(...cells.map(([className, ...content]) => element('td', className, ...content)));
  return tr;
};

let paused = false, lost = 0;
function wanted(r) {
  return (!$('documents').checked || r.collection) && (!$('failures').checked || !r.ok) &&
    `${r.opcode} ${r.key || ''} ${r.status} ${r.fault || ''} ${r.collection || ''}`.toLowerCase()
      .includes($('filter').value.toLowerCase());
}

function showRequest(r) {
  const place = r.collection && r.collection !== '_default._default' ? `${r.bucket}.${r.collection}: ` : '';
  const key = r.key_base64 ? `base64 ${r.key_base64}` : r.key || '';
  const status = r.silent && r.fault ? 'no answer' : r.silent ? `${r.status}, quiet` : r.status;
  return row([
    ['time', clock(r.at)], ['', dot(r.node), r.node], ['', r.opcode], ['key', place + key],
    [r.ok ? 'good' : 'bad', status + (r.closed ? ', closed' : '')], ['num', duration(r.took_us)], ['warn', r.fault || ''],
  ]);
}

function showOperation(o) {
  const attempts = (o.attempts || []).flatMap((a, i) => {
    const wrong = a.status || a.error || '';
    const text = (wrong || 'ok') + (a.reason ? ` (${a.reason})` : '');
    const chip = element('span', wrong ? 'bad' : 'good', text);
    chip.title = [a.node, a.error, a.took_us && duration(a.took_us)].filter(Boolean).join(', ');
    return i ? [' › ', chip] : [`${o.attempts.length}: `, chip];
  });
  const place = [o.bucket, o.collection !== '_default._default' && o.collection].filter(Boolean).join('.');
  return row([
    ['time', clock(o.at)], ['text', o.client || ''], ['text what', [o.operation || o.service, place, o.key].filter(Boolean).join(' ')],
    ['text', ...attempts], ['num', duration(o.took_us || 0)], [o.error ? 'text bad' : 'good', o.error || 'ok'],
  ]);
}

function fill(select, values) { // keeps the choice
  const was = select.value, now = values.join('\n');
  if (select.dataset.values === now) return;
  select.dataset.values = now;
  select.replaceChildren(...values.map(v => option(v, v)));
  if (values.includes(was)) select.value = was;
}

const stream = new EventSource('events');
stream.addEventListener('open', () => { $('live').textContent = 'live'; $('live').className = 'good'; });
stream.addEventListener('error', () => { $('live').textContent = 'not connected, trying again'; $('live').className = 'bad'; });
stream.addEventListener('state', e => {
  const s = JSON.parse(e.data);
  $('address').textContent = s.cluster.connection_string;
  $('version').textContent = `epoch ${s.cluster.epoch}, revision ${s.cluster.revision}`;
  s.cluster.nodes.forEach(showNode);
  fill($('bucket'), s.cluster.buckets.map(b => b.name));
  version = $('version').textContent;
  if (shown !== version + $('bucket').value && $('bucket').value) loadMap().catch(fail);
  $('injections').replaceChildren(...s.injections.map(showInjection).reverse());
  $('conns').replaceChildren(...s.connections.map(k => row([
    ['', k.connection], ['', dot(k.node), k.node], ['text', agent(k)], ['text', k.user || ''], ['text', k.bucket || ''],
  ])), ...(s.more ? [row([['', ''], ['', ''], ['dim', `${s.more} more`]])] : []));
});
function agent(k) {
  let name = k.agent || '';
  try { name = JSON.parse(name).a || name; } catch { /* older SDKs send plain text */ }
  const e = element('span', '', name || k.peer, k.tls ? ' (TLS)' : '');
  e.title = k.peer;
  return e;
}
stream.addEventListener('requests', e => {
  const s = JSON.parse(e.data);
  for (const l of s.loads) {
    const sum = loads.get(l.node) || {requests: 0, failures: 0, p50_us: 0, p99_us: 0};
    sum.requests += l.requests;
    sum.failures += l.failures;
    sum.p50_us = l.p50_us;
    sum.p99_us = Math.max(sum.p99_us, l.p99_us);
    loads.set(l.node, sum);
  }
  used = new Set(s.requests.filter(r => r.bucket === $('bucket').value).map(r => r.vbucket));
  paint();
  const retried = o => !$('retried').checked || o.error || (o.attempts || []).length > 1;
  prepend($('ops'), (s.operations || []).filter(retried).map(showOperation));
  lost += s.lost + s.operations_lost + (paused ? s.requests.length : 0);
  if (!paused) prepend($('requests'), s.requests.filter(wanted).map(showRequest));
  $('lost').textContent = lost ? `${lost.toLocaleString()} came too fast to be shown` : '';
});

$('pause').addEventListener('click', () => {
  paused = !paused;
  $('pause').textContent = paused ? 'Go on' : 'Pause';
  $('pause').setAttribute('aria-pressed', paused);
});
for (const b of document.querySelectorAll('[data-post]')) b.addEventListener('click', act('POST', b.dataset.post));
$('opcodes').replaceChildren(...opcodes.map(o => option(o, o)));
$('fault').fault.replaceChildren(...faults.map(([text], i) => option(text, i)));
$('fault').addEventListener('submit', e => {
  e.preventDefault();
  const f = e.target, match = {times: Number(f.times.value)};
  if (f.opcode.value) match.opcodes = f.opcode.value.split(/[\s,]+/);
  if (f.key.value) match.key = f.key.value;
  if (f.node.value) match.nodes = [Number(f.node.value)];
  api('POST', '/v1/injections', {match, fault: faults[f.fault.value][1]}).catch(fail);
});
$('latency').addEventListener('submit', e => {
  e.preventDefault();
  const ms = Number(e.target.ms.value);
  api('PUT', '/v1/connection-faults', ms ? {latency_ms: ms} : {}).catch(fail);
});
