// Shows the view that the address's hash names. After a server-sent event the page fetches the
// view's data again.

import { clock, h, section, table } from './dom.js';
import { findings, members, offsets, rebalances, refusals, waiting } from './tables.js';
import { timeline } from './timeline.js';
import { ago, budget, coarse, number, reasonChip, span, stateChip, stateWords } from './formatting.js';

const PAGE = 200;
const REFRESH_MS = 10_000;
const EVENTS = ['rebalance_started', 'rebalance', 'member_removed', 'refusal', 'offsets_removed'];

const main = document.getElementById('main');
const trail = document.getElementById('trail');
const live = document.getElementById('live');
const liveText = document.getElementById('live-text');
const memory = document.getElementById('memory');

let view = null;
let stream = null;
let pending = 0;
let shownParts = new Map();
let clockOffset = 0;

const serverNow = () => Date.now() + clockOffset;

async function get(path) {
  const answer = await fetch(path, { headers: { Accept: 'application/json' } });
  const date = Date.parse(answer.headers.get('Date') ?? '');
  // The header has whole seconds: only a clock that is clearly off is corrected.
  if (!Number.isNaN(date) && Math.abs(date - Date.now()) > 2000) clockOffset = date - Date.now();
  const form = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(form.error ?? answer.statusText), { status: answer.status });
  return form;
}

/** Replace a part of the view if its data has changed. */
function show(name, data, build) {
  const fingerprint = JSON.stringify(data);
  const before = shownParts.get(name);
  if (before?.fingerprint === fingerprint) return;
  const node = h('div', { 'data-part': name });
  const content = build();
  if (content) node.append(content);
  const slot = main.querySelector(`[data-part="${name}"]`);
  const focus = focusIn(slot);
  const scrolled = [...slot.querySelectorAll('.scroll')].map((box) => [box.scrollLeft, box.scrollLeft + box.clientWidth >= box.scrollWidth - 4]);
  slot.replaceWith(node);
  [...node.querySelectorAll('.scroll')].forEach((box, index) => {
    const [left, atEnd] = scrolled[index] ?? [0, true];
    box.scrollLeft = atEnd && 'end' in box.dataset ? box.scrollWidth : left;
  });
  if (focus) node.querySelector(focus)?.focus({ preventScroll: true });
  shownParts.set(name, { fingerprint });
  tick();
}

function focusIn(slot) {
  const active = document.activeElement;
  if (!slot.contains(active)) return null;
  if (active.id) return `#${CSS.escape(active.id)}`;
  if (active.getAttribute('href')) return `a[href="${CSS.escape(active.getAttribute('href'))}"]`;
  return active.getAttribute('aria-label') ? `[aria-label="${CSS.escape(active.getAttribute('aria-label'))}"]` : null;
}

function layout(...parts) {
  shownParts = new Map();
  main.replaceChildren(...parts);
}

const slot = (name) => h('div', { 'data-part': name });

// --- all groups ---

function groupsView() {
  const filter = h('input', { type: 'search', id: 'filter', placeholder: 'part of a name', autocomplete: 'off', spellcheck: 'false' });
  const states = h('select', { id: 'states' }, h('option', { value: '' }, 'all states'),
    ['Stable', 'PreparingRebalance', 'CompletingRebalance', 'Empty', 'Dead'].map((state) => h('option', { value: state }, stateWords(state))));
  let answer = null;
  let wanted = PAGE;
  const draw = () => {
    if (!answer) return;
    const part = filter.value.toLowerCase();
    const groups = answer.groups.filter((group) => (!states.value || group.state === states.value) && group.group.toLowerCase().includes(part));
    show('findings', answer.findings, () => findings(answer.findings, true));
    show('totals', totals(answer.groups), () => drawTotals(answer.groups, Boolean(answer.next)));
    show('groups', [groups, part, states.value], () => drawGroups(groups, answer, () => { wanted += PAGE; refresh(); }));
  };
  filter.addEventListener('input', draw);
  states.addEventListener('change', draw);
  document.title = 'Groups';
  trail.replaceChildren(h('li', {}, h('a', { href: '#/', 'aria-current': 'page' }, 'Groups')));
  layout(h('h1', { class: 'unseen' }, 'Groups'), slot('findings'),
    h('div', { class: 'tools' }, slot('totals'),
      h('form', { role: 'search', on: { submit: (event) => event.preventDefault() } },
        h('label', { for: 'filter' }, 'Find'), filter, h('label', { for: 'states', class: 'unseen' }, 'State'), states)),
    slot('groups'));
  return { events: 'api/events', async refresh() { answer = await get(`api/groups?limit=${wanted}`); draw(); } };
}

function totals(groups) {
  const counts = new Map();
  for (const { state } of groups) counts.set(state, (counts.get(state) ?? 0) + 1);
  return [...counts].sort();
}

function drawTotals(groups, more) {
  return h('p', { class: 'totals' }, h('b', {}, `${number(groups.length)}${more ? '+' : ''}`), groups.length === 1 ? ' group' : ' groups',
    totals(groups).map(([state, count]) => h('span', {}, stateChip(state), ` ${number(count)}`)));
}

function drawGroups(groups, answer, more) {
  const columns = [['Group', 'name'], ['State', ''], ['Members', 'num'], ['Last rebalance', 'last'], ['Took', 'num wide-only'],
    ['In the last hour', 'num wide-only'], ['Generation', 'num wide-only'], ['Protocol', 'time wide-only']];
  const rows = groups.map((group) => {
    const last = group.last_rebalance;
    return [
      h('a', { href: `#/groups/${encodeURIComponent(group.group)}` }, group.group || '(no name)'),
      stateChip(group.state),
      number(group.members),
      last ? [reasonChip(last.reason), ' ', h('span', { class: 'quiet' }, clock(last.started_ms, 'ago'))] : h('span', { class: 'quiet' }, '–'),
      last ? span(last.join_phase_ms + last.sync_phase_ms) : '–',
      number(group.rebalances_1h ?? 0),
      number(group.generation),
      group.protocol || '–',
    ];
  });
  const empty = answer.groups.length ? 'No group matches.' : 'There are no groups yet. A consumer creates a group when it joins.';
  return h('div', {}, table('Groups', columns, rows, { empty, narrow: 'cards' }),
    answer.next ? h('button', { type: 'button', on: { click: more } }, 'Show more groups') : null);
}

// --- one group ---

function groupView(id) {
  const path = `api/groups/${encodeURIComponent(id)}`;
  document.title = `${id} · group`;
  trail.replaceChildren(h('li', {}, h('a', { href: '#/' }, 'Groups')), h('li', {}, h('a', { href: location.hash, 'aria-current': 'page' }, id || '(no name)')));
  layout(slot('head'), slot('waiting'), slot('findings'), slot('timeline'), slot('refusals'), slot('members'), slot('offsets'));
  let isFolded = true;
  let [group, history] = [null, null];
  const draw = () => drawGroup(group, history, isFolded, () => { isFolded = !isFolded; draw(); });
  return { events: `api/events?group=${encodeURIComponent(id)}`,
    async refresh() {
      [group, history] = await Promise.all([get(path).catch(gone(id)), get(`${path}/timeline?limit=100`)]);
      draw();
    } };
}

const gone = (id) => (error) => {
  if (error.status === 404) return { group: id, state: null, members: [], offsets: [], findings: [] };
  throw error;
};

function drawGroup(group, history, isFolded, toggle) {
  show('head', [group.state, group.generation, group.members.length, group.protocol, group.leader, group.state_since_ms], () => head(group));
  show('waiting', group.waiting, () => waiting(group.waiting));
  show('findings', [history.findings, history.past_findings], () => findings(history.findings, false, history.past_findings));
  show('timeline', [history.current, history.rebalances, group.members.map((member) => member.member_id), isFolded], () => section('timeline', 'Rebalances', null,
    timeline(history, group.members, serverNow()), rebalances(history.rebalances, isFolded, toggle)));
  show('refusals', history.refusals, () => refusals(history.refusals));
  show('members', [group.members, group.leader], () => members(group));
  show('offsets', group.offsets, () => offsets(group.offsets));
}

function head(group) {
  const fact = (name, value) => h('div', {}, h('dt', {}, name), h('dd', {}, value));
  return h('div', { class: 'head' }, h('h1', {}, group.group || '(no name)'), stateChip(group.state),
    group.state === null ? null : h('dl', { class: 'facts' },
      fact('in this state for', group.state_since_ms ? clock(group.state_since_ms, 'age') : '–'),
      fact('generation', number(group.generation)), fact('members', number(group.members.length)),
      fact('protocol', group.protocol || '–')));
}

// --- staying up to date ---

function tick() {
  const now = serverNow();
  for (const element of main.querySelectorAll('time[data-ms]')) {
    const at = Number(element.dataset.ms);
    const { mode } = element.dataset;
    const text = mode === 'age' ? coarse(now - at) : mode === 'ago' ? ago(now - at) : at > now ? `in ${coarse(at - now)}` : 'now';
    if (element.textContent !== text) element.textContent = text;
  }
}

function setLive(state, text) {
  if (live.dataset.state === state) return;
  live.dataset.state = state;
  liveText.textContent = text;
}

async function showMemory() {
  // A server older than this page has no such field.
  const status = await get('api/status').catch(() => null);
  const text = status ? budget(status.client_memory) : '';
  if (memory.textContent !== text) memory.textContent = text;
  memory.classList.toggle('scarce', Boolean(status?.client_memory.waiting_connections));
}

async function refresh() {
  const mine = view;
  try {
    await Promise.all([mine.refresh(), showMemory()]);
  } catch (error) {
    if (mine !== view) return;
    if (error.status) layout(h('p', { class: 'trouble', role: 'alert' }, error.message));
    else setLive('down', 'no connection to the server');
  }
}

function refreshSoon() {
  if (pending) return;
  pending = setTimeout(() => { pending = 0; refresh(); }, 250);
}

function listen(path) {
  stream?.close();
  stream = new EventSource(path);
  stream.addEventListener('open', () => { setLive('up', 'live'); refresh(); });
  stream.addEventListener('error', () => setLive('down', 'reconnecting'));
  for (const name of [...EVENTS, 'overrun']) stream.addEventListener(name, refreshSoon);
}

async function route() {
  const match = /^#\/groups\/(.*)$/.exec(location.hash);
  let id = null;
  try { id = match ? decodeURIComponent(match[1]) : null; } catch { id = match[1]; }
  view = match ? groupView(id) : groupsView();
  await refresh();
  listen(view.events);
}

window.addEventListener('hashchange', () => { route(); main.focus({ preventScroll: true }); window.scrollTo(0, 0); });
document.querySelector('[data-skip]').addEventListener('click', (event) => { event.preventDefault(); main.focus(); });
window.addEventListener('pagehide', () => stream?.close());
window.addEventListener('pageshow', (event) => { if (event.persisted) route(); });
main.addEventListener('pointerover', (event) => {
  const keys = event.target.closest('[data-key]')?.dataset.key.split(' ') ?? [];
  for (const element of main.querySelectorAll('[data-key]')) {
    element.classList.toggle('lit', element.dataset.key.split(' ').some((key) => keys.includes(key)));
  }
});
setInterval(tick, 1000);
setInterval(() => { if (!document.hidden) refresh(); }, REFRESH_MS);
route();
