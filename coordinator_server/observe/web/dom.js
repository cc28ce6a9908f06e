// Makes elements from plain values. Text never becomes HTML: clients choose ids and reasons.

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'on') {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else {
      element.setAttribute(name, value === true ? '' : String(value));
    }
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** An HTML element; `attributes.on` has its listeners. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

// As in the server: within the years 1 to 9999 of every time zone.
const DAY_MS = 86_400_000;
const EARLIEST_MS = -62_135_596_800_000 + DAY_MS;
const LATEST_MS = 253_402_300_799_999 - DAY_MS;

/** A date; clients and damaged logs may send a time outside the calendar, which becomes the nearest date in it. */
export const date = (ms) => new Date(Math.min(Math.max(Number(ms) || 0, EARLIEST_MS), LATEST_MS));

/** A time element that `tick` updates; `mode` is `age`, `ago` or `left`. */
export function clock(ms, mode) {
  const element = h('time', { datetime: date(ms).toISOString(), 'data-ms': ms, 'data-mode': mode }, '…');
  element.title = date(ms).toLocaleString();
  return element;
}

/** A table; `columns` are `[title, class]`, `rows` lists of cells, each a value or a list of nodes. */
export function table(caption, columns, rows, { keys = [], empty = 'nothing', narrow = 'stacks' } = {}) {
  if (!rows.length) return h('p', { class: 'quiet' }, empty);
  // Explicit roles: a narrow screen displays rows as blocks, which removes the implicit ones.
  const head = h('tr', { role: 'row' }, columns.map(([title, kind]) => h('th', { scope: 'col', role: 'columnheader', class: kind }, title)));
  const body = rows.map((cells, index) => h('tr', { role: 'row', 'data-key': keys[index] ?? null }, cells.map((cell, at) => {
    const [title, kind] = columns[at];
    if (at === 0) return h('th', { scope: 'row', role: 'rowheader', class: kind }, cell);
    const inner = h('div', { class: 'cell' }, cell);
    const isVoid = !inner.textContent || inner.textContent === '–';
    return h('td', { role: 'cell', class: `${kind}${isVoid ? ' void' : ''}`, 'data-title': title }, inner);
  })));
  return h('div', { class: 'scroll', tabindex: '0', role: 'group', 'aria-label': caption },
    h('table', { role: 'table', class: narrow }, h('caption', { class: 'unseen' }, caption),
      h('thead', { role: 'rowgroup' }, head), h('tbody', { role: 'rowgroup' }, body)));
}

/** A titled part of the page. */
export function section(id, title, note, ...children) {
  return h('section', { id, 'aria-labelledby': `${id}-title` },
    h('header', {}, h('h2', { id: `${id}-title` }, title), note ? h('p', { class: 'note' }, note) : null),
    ...children);
}
