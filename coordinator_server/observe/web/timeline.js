// Draws the timeline of a group: generations from left to right, members as lanes.
//
// A rebalance takes milliseconds and a generation hours: widths grow with the logarithm of time.

import { h, s } from './dom.js';
import { day, families, family, mark, shortName, span, timeOfDay, words } from './formatting.js';

const TOP = 46;
const BAR = 26;
const LANES_TOP = TOP + BAR + 24;
const LANE = 22;
const FOOT = 34;
const LEFT = 10;
const MIN_STABLE = 62;
const MAX_LANES = 40;

const CAME = ['member_joined', 'static_replaced'];

const key = (member) => member.group_instance_id || member.member_id;

const logWidth = (ms, least, most) => Math.min(most, least + 7 * Math.log2(1 + Math.max(0, ms) / 20));

const labelWidth = (event) => 24 + 7 * Math.max(words(event.reason).length, Math.min(14, shortName(event.culprit).length));

/** Columns from the oldest to the newest: a rebalance and the generation that followed. */
function columns(history, now) {
  const events = [...history.rebalances].reverse();
  const made = events.map((event, index) => {
    const ended = event.ended_ms ?? event.started_ms + event.join_phase_ms + event.sync_phase_ms;
    const next = events[index + 1]?.started_ms ?? history.current?.started_ms ?? now;
    return { event, ended, join: logWidth(event.join_phase_ms, 8, 110), sync: logWidth(event.sync_phase_ms, 6, 80),
      stable: Math.min(150, MIN_STABLE + 4 * Math.log2(1 + Math.max(0, next - ended) / 1000)) };
  });
  if (history.current) {
    const running = { ...history.current, outcome: 'running', joined: CAME.includes(history.current.reason) ? [history.current.culprit] : [], left: [], evicted: [], waited_for: [] };
    made.push({ event: running, ended: now, join: 96, sync: 0, stable: 8, running: true });
  }
  let x = LEFT;
  for (const column of made) {
    // A column is as wide as its label, which distinguishes the reasons without colour.
    column.stable = Math.max(column.stable, labelWidth(column.event) - column.join - column.sync);
    column.x = x;
    column.end = x + column.join + column.sync;
    column.next = column.end + column.stable;
    x = column.next;
  }
  return made;
}

/** The columns in which each member was in the group, from the current members and the changes of each rebalance. */
function lanes(made, members) {
  const found = new Map();
  const lane = (member) => {
    if (!found.has(key(member))) found.set(key(member), { member, spans: [], marks: [], waits: [] });
    return found.get(key(member));
  };
  let present = new Map(members.map((member) => [key(member), member]));
  for (const member of members) lane(member);
  for (let index = made.length - 1; index >= 0; index -= 1) {
    const column = made[index];
    const { event } = column;
    for (const member of present.values()) {
      const joined = event.joined.some((other) => key(other) === key(member));
      lane(member).spans.push([joined ? column.x + column.join : column.x, column.next]);
    }
    for (const member of event.joined) {
      lane(member).marks.push({ kind: 'joined', x: column.x + column.join });
      present.delete(key(member));
    }
    for (const [kind, list] of [['left', event.left], ['evicted', event.evicted]]) {
      for (const member of list) {
        const gone = lane(member);
        const at = kind === 'left' ? column.x : column.x + column.join;
        gone.marks.push({ kind, x: at });
        if (kind === 'evicted') gone.spans.push([column.x, at]);
        present.set(key(member), member);
      }
    }
    for (const member of event.waited_for) {
      lane(member).waits.push({ x: column.x, width: column.join, ms: member.waited_ms });
    }
  }
  return [...found.values()];
}

/** A pattern for each family, for readers who cannot see its colour. */
function patterns() {
  const line = (d) => s('path', { d, class: 'pattern-line' });
  const pattern = (id, ...content) => s('pattern', { id: `pattern-${id}`, width: 6, height: 6, patternUnits: 'userSpaceOnUse' }, ...content);
  return s('defs', {},
    pattern('came'),
    pattern('went', s('circle', { cx: 3, cy: 3, r: 1.1, class: 'pattern-dot' })),
    pattern('failed', line('M-1 7 7 -1M-1 1 1 -1M5 7 7 5')),
    pattern('changed', line('M0 3H6')),
    pattern('ruled', line('M0 3H6M3 0V6')));
}

function phase(column, x, width, kind) {
  const { event } = column;
  const box = { x, y: TOP, width, height: BAR, rx: 2 };
  return [s('rect', { ...box, class: `phase ${kind} ${family(event.reason)}` }),
    kind === 'join' ? s('rect', { ...box, class: 'pattern', fill: `url(#pattern-${family(event.reason)})` }) : null];
}

function bar(column, previous) {
  const { event } = column;
  const middle = TOP + BAR / 2 + 4;
  const changedDay = !previous || day(previous.event.started_ms) !== day(event.started_ms);
  const took = column.running ? 'under way' : span(event.join_phase_ms + event.sync_phase_ms);
  const title = `${words(event.reason)}: ${shortName(event.culprit)}`;
  const generation = column.running ? '' : event.outcome === 'completed' ? `gen ${event.generation_after}` : words(event.outcome);
  return s('g', { class: `column ${column.running ? 'running' : ''}`, 'data-key': `rebalance-${event.started_ms}` },
    s('title', {}, `${title}, ${took}`),
    s('line', { x1: column.x, x2: column.x, y1: 6, y2: '100%', class: 'grid' }),
    s('text', { x: column.x + 4, y: 16, class: 'reason-label' }, `${mark(event.reason)} ${words(event.reason)}`),
    s('text', { x: column.x + 4, y: 30, class: 'minor' }, `${shortName(event.culprit).slice(0, 14)}`),
    phase(column, column.x + 1, Math.max(3, column.join - 1), 'join'),
    column.sync ? phase(column, column.x + column.join, Math.max(3, column.sync - 1), 'sync') : null,
    s('rect', { x: column.end, y: TOP, width: column.stable - 1, height: BAR, rx: 2, class: 'stable' }),
    s('text', { x: column.end + 6, y: middle, class: 'generation' }, generation),
    s('text', { x: column.x + 4, y: TOP + BAR + 14, class: 'minor' }, took),
    s('text', { x: column.x + 4, class: 'axis', 'data-axis': '' }, timeOfDay(event.started_ms)),
    changedDay ? s('text', { x: column.x + 4, class: 'axis', 'data-axis': 'day' }, day(event.started_ms)) : null);
}

const MARKS = {
  joined: (x, y) => s('circle', { cx: x, cy: y, r: 4, class: 'mark joined' }),
  left: (x, y) => s('circle', { cx: x, cy: y, r: 4, class: 'mark left' }),
  evicted: (x, y) => s('path', { d: `M${x - 4} ${y - 4}l8 8m0-8l-8 8`, class: 'mark evicted' }),
};

function drawLane(lane, y) {
  const verbs = { joined: 'joined', left: 'left', evicted: 'evicted' };
  return s('g', { class: 'lane' },
    lane.spans.map(([from, to]) => s('line', { x1: from, x2: to, y1: y, y2: y, class: 'life' })),
    lane.waits.map((wait) => s('g', {}, s('title', {}, `${shortName(lane.member)} was waited for${wait.ms === undefined ? '' : ` ${span(wait.ms)}`}`),
      s('rect', { x: wait.x + 2, y: y - 4, width: Math.max(4, wait.width - 4), height: 8, rx: 4, class: 'waited' }))),
    lane.marks.map((entry) => s('g', {}, s('title', {}, `${shortName(lane.member)} ${verbs[entry.kind]}`),
      MARKS[entry.kind](entry.x, y),
      entry.kind === 'evicted' ? s('text', { x: entry.x + 8, y: y + 4, class: 'minor evicted-label' }, 'evicted') : null)));
}

function legend() {
  const swatch = (name) => s('svg', { class: 'swatch', width: 22, height: 12, 'aria-hidden': 'true' },
    s('rect', { width: 22, height: 12, rx: 2, class: `phase join ${name}` }),
    s('rect', { width: 22, height: 12, rx: 2, class: 'pattern', fill: `url(#pattern-${name})` }));
  const sign = (kind) => s('svg', { class: 'swatch', width: 14, height: 12, 'aria-hidden': 'true' }, MARKS[kind](7, 6));
  const waited = s('svg', { class: 'swatch', width: 22, height: 12, 'aria-hidden': 'true' },
    s('rect', { x: 0, y: 2, width: 22, height: 8, rx: 4, class: 'waited' }));
  const item = (picture, text) => h('li', {}, picture, text);
  return h('ul', { class: 'legend', 'aria-label': 'Legend' },
    families().map(([name, { title, mark: sign_ }]) => item(swatch(name), `${sign_} ${title}`)),
    item(sign('joined'), 'joined'), item(sign('left'), 'left'), item(sign('evicted'), 'evicted'), item(waited, 'waited for'));
}

function summary(history, made, shown) {
  const last = history.rebalances[0];
  const latest = last ? `; the last one had the reason ${words(last.reason)} and the culprit ${shortName(last.culprit)}` : '';
  return `Timeline of ${history.group}: ${history.rebalances.length} rebalances of ${shown} members${latest}. The table below has all details.`;
}

/** The figure and its legend. `members` are the current ones, `now` is in milliseconds. */
export function timeline(history, members, now) {
  const made = columns(history, now);
  if (!made.length) return h('p', { class: 'quiet' }, 'No rebalance is known yet.');
  const all = lanes(made, members);
  const shown = all.slice(0, MAX_LANES);
  const width = made.at(-1).next + 12;
  const height = LANES_TOP + Math.max(1, shown.length) * LANE + FOOT;
  const y = (index) => LANES_TOP + index * LANE + LANE / 2;
  const picture = s('svg', { width, height, viewBox: `0 0 ${width} ${height}`, class: 'timeline', role: 'img', 'aria-label': summary(history, made, all.length) },
    patterns(), made.map((column, index) => bar(column, made[index - 1])), shown.map((lane, index) => drawLane(lane, y(index))));
  for (const label of picture.querySelectorAll('[data-axis]')) {
    label.setAttribute('y', label.dataset.axis === 'day' ? height - 4 : height - 18);
  }
  const names = h('div', { class: 'lane-names', 'aria-hidden': 'true' }, shown.map((lane) => h('div', { title: lane.member.member_id }, shortName(lane.member))));
  const more = all.length > shown.length ? h('p', { class: 'note' }, `${all.length - shown.length} more members are not drawn.`) : null;
  return h('figure', {},
    h('div', { class: 'picture' }, names, h('div', { class: 'scroll', tabindex: '0', role: 'group', 'aria-label': 'Timeline', 'data-end': '' }, picture)),
    more, h('figcaption', {}, legend(), h('p', { class: 'note' }, 'Each bar shows the join phase, the sync phase and the generation that followed. Widths grow with the logarithm of time.')));
}

